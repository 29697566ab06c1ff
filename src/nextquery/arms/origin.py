"""The parts of a log that a pool keeps: spellings, counts, sessions, cleaning rules.

Sessions are kept only as arm ids, so no file contains what the privacy rules removed.
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
    """The log of a pool; arrays cover the arms from the log, in order of id."""

    shown: Sequence[str]  #: the most common original spelling of each arm
    session_counts: NDArray[np.int64]  #: number of sessions that issued each arm
    user_counts: NDArray[np.int64]  #: number of users who did (sessions, if there are no users)
    sessions: Sessions  #: in order of time, as ids of arms; an unknown start is NaN
    k_anonymous: bool
    report: Mapping[str, Any] = field(default_factory=dict)  #: the report of ingest, as JSON
    held_out: int = 0  #: number of newest sessions that the encoder was not fitted on

    def clean(self, query: str) -> Cleaned:
        """Clean a typed query with the rules that cleaned the log."""
        return self._cleaner(query)

    @cached_property
    def _cleaner(self) -> QueryCleaner:
        options = self.report.get("options", {})
        names = ("profile", "skip", "max_chars")
        return QueryCleaner(**{name: options[name] for name in names if name in options})

    def meta(self) -> dict[str, Any]:
        """Return the log's manifest entry."""
        return {
            "k_anonymous": self.k_anonymous,
            "report": dict(self.report),
            "held_out": self.held_out,
        }

    def parts(self) -> dict[str, Part]:
        """Return the parts of the log to save in a folder."""
        counts: dict[str, Part] = {f"log_{name}.npy": getattr(self, name) for name in _COUNTS}
        named = zip(_SESSIONS, self.sessions, strict=True)
        sessions: dict[str, Part] = {f"log_{name}.npy": array for name, array in named}
        return {**TextColumn.of(self.shown).parts("log_shown"), **counts, **sessions}

    @classmethod
    def of(cls, folder: Folder, meta: Mapping[str, Any]) -> "Origin":
        """Load the log from an opened folder, memory-mapped."""
        counts: dict[str, Any] = {name: folder.array(f"log_{name}.npy") for name in _COUNTS}
        sessions = Sessions(*(folder.array(f"log_{name}.npy") for name in _SESSIONS))
        return cls(TextColumn.open(folder, "log_shown"), **counts, sessions=sessions, **meta)
