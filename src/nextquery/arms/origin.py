"""What a pool keeps of the log it was made from: spellings, counts, sessions, cleaning rules.

Sessions are kept as arm ids alone, so that what the privacy rules removed stands in no file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.texts import TextColumn
from nextquery.folders import Folder, Part
from nextquery.logs.rules.one_query import Cleaned, QueryCleaner
from nextquery.sessions import Sessions

_COUNTS = ("session_counts", "user_counts")
_SESSIONS = ("session_arms", "session_offsets", "session_times")


@dataclass(frozen=True)
class Origin:
    """The log behind a pool; arrays cover the arms that came from it, in order of id."""

    shown: Sequence[str]  #: the commonest original spelling of each arm
    session_counts: NDArray[np.int64]  #: in how many sessions each arm was issued
    user_counts: NDArray[np.int64]  #: by how many users (sessions stand for users without them)
    sessions: Sessions  #: in order of time, as ids of arms; a start that nobody knows is NaN
    k_anonymous: bool
    report: Mapping[str, Any] = field(default_factory=dict)  #: what ingest did, as JSON
    held_out: int = 0  #: from so many of the newest sessions the encoder has not learnt

    def clean(self, query: str) -> Cleaned:
        """A query as it is typed, through the rules that cleaned the log."""
        return self._cleaner(query)

    @cached_property
    def _cleaner(self) -> QueryCleaner:
        said = self.report.get("options", {})
        rules = {name: said[name] for name in ("profile", "skip", "max_chars") if name in said}
        return QueryCleaner(**rules)

    def meta(self) -> dict[str, Any]:
        """What a manifest says of the log."""
        return {
            "k_anonymous": self.k_anonymous,
            "report": dict(self.report),
            "held_out": self.held_out,
        }

    def parts(self) -> dict[str, Part]:
        """What a folder keeps of the log."""
        counts: dict[str, Part] = {f"log_{name}.npy": getattr(self, name) for name in _COUNTS}
        named = zip(_SESSIONS, self.sessions, strict=True)
        sessions: dict[str, Part] = {f"log_{name}.npy": array for name, array in named}
        return {**TextColumn.of(self.shown).parts("log_shown"), **counts, **sessions}

    @classmethod
    def of(cls, folder: Folder, meta: Mapping[str, Any]) -> "Origin":
        """The log in an opened folder, memory-mapped."""
        counts: dict[str, Any] = {name: folder.array(f"log_{name}.npy") for name in _COUNTS}
        sessions = Sessions(*(folder.array(f"log_{name}.npy") for name in _SESSIONS))
        return cls(TextColumn.open(folder, "log_shown"), **counts, sessions=sessions, **meta)
