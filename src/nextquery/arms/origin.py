"""What a pool keeps of its log: spellings, counts, sessions, cleaning rules; and query lookup.

Sessions are stored only as arm ids with their times, so no file contains what the privacy rules
removed. User identities are kept only on request, and then as keyed hashes.

A query finds its arm as typed, after cleaning, in its displayed spelling, or in another form.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nextquery import datasets
from nextquery.arms.texts import TextColumn, with_any
from nextquery.folders import Folder, Part
from nextquery.logs.cleaning import forms
from nextquery.logs.latex import RAW_BYTES, readable
from nextquery.logs.options import CLEANING
from nextquery.logs.private_text import Cleaned, QueryCleaner
from nextquery.segments import key_of, segment_of, text_of
from nextquery.sessions import NO_PEOPLE, Sessions

if TYPE_CHECKING:
    from nextquery.arms.pool import ArmPool


def arm_of(
    pool: "ArmPool", query: str, clean: Callable[[str], str], segment: str = ""
) -> int | None:
    """Return the arm of a query in a segment: by its text, its cleaned text, or as it is shown."""
    arm = pool.index_of(key_of(segment, query))
    if arm is None:
        arm = pool.index_of(key_of(segment, clean(query)))
    if arm is None and pool.origin is not None:
        arm = pool.origin.arm_of_readable(query, segment)
        if arm is not None and not len(pool.alive([arm])):
            arm = None
    return arm


def other_forms(pool: "ArmPool", text: str) -> tuple[str, ...]:
    """Return the keys of other forms of a key; none if the arms are not English words."""
    if pool.origin is not None and not pool.origin.may_be_english:
        return ()
    segment = segment_of(text)
    return tuple(key_of(segment, form) for form in forms(text_of(text)))


def arm_in_other_form(pool: "ArmPool", text: str) -> int | None:
    """Return the arm that has another form of a key, in the same segment, if there is one.

    Of several it is the one of the most sessions, then that with the lowest id.

    >>> from nextquery.arms.pool import ArmPool
    >>> pool = ArmPool.from_vectors(["black hole", "news"], [[1, 0], [0, 1]])
    >>> arm_in_other_form(pool, "black holes"), arm_in_other_form(pool, "grey hole")
    (0, None)
    """
    found = [pool.index_of(form) for form in pool.texts.known(other_forms(pool, text))]
    live = [arm for arm in found if arm is not None]
    return min(live, key=lambda arm: (-_sessions(pool, arm), arm), default=None)


def _sessions(pool: "ArmPool", arm: int) -> int:
    counts = () if pool.origin is None else pool.origin.session_counts
    return int(counts[arm]) if arm < len(counts) else 0


_COUNTS = ("session_counts", "user_counts")
_SESSIONS = ("session_arms", "session_offsets", "session_times", "query_times", "session_people")
NO_SEGMENTS = np.empty(0, np.int32)
_ALWAYS = 3  # of these; the others are written unless they are empty
_PEOPLE, _HITS, _SEGMENTS = "log_people.npy", "log_hits.npy", "log_segments.npy"
_LEDGER = "log_ledger.bin"


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
    for_replays: int = 0  #: the newest of them, not of the warm start
    #: newest number of results, -1: unknown; empty: all are
    hits: NDArray[np.int64] = field(default_factory=lambda: NO_PEOPLE)
    people: Sequence[str] = ()  #: keyed hashes of the users, by their number in `sessions`
    named_with: Mapping[str, str] = field(default_factory=dict)  #: `Personal.named_with`
    #: number of each arm's segment in `segment_names`; empty: none has one
    segments: NDArray[np.int32] = field(default_factory=lambda: NO_SEGMENTS)
    segment_names: Sequence[str] = ()
    ledger: bytes | Path | None = field(default=None, repr=False)  #: a sealed `Ledger`, or its file
    known_as: str = ""  #: its rows and its digest, if they do not follow from its texts and vectors
    #: pools whose rows it begins with, oldest first: their rows, digest and encoder's digest
    was: Sequence[Sequence[Any]] = ()

    @property
    def arms_are(self) -> str:
        """What the arms are, in words; a pool knows it if its log is built-in."""
        return datasets.arms_are(self.report.get("log"))

    @property
    def is_text(self) -> bool:
        """Whether the queries are words, and not statements in SQL."""
        return bool(self._options.get("profile", "text") == "text")

    @property
    def may_be_english(self) -> bool:
        """Whether the queries may be English words."""
        return self.is_text and self._options.get("language") in (None, "en", "any")

    def readable(self, arm: int) -> str:
        """Return the spelling of an arm to show: without LaTeX."""
        return readable(self.shown[arm]) if self.is_text else self.shown[arm]

    def segment(self, arm: int) -> str:
        """Return the segment of an arm of the log."""
        return self.segment_names[self.segments[arm]] if len(self.segments) else ""

    def arm_of_readable(self, text: str, segment: str = "") -> int | None:
        """Return the arm that is shown as this text, if its spelling in the log had LaTeX."""
        return self._by_readable.get(key_of(segment, text.casefold()))

    @cached_property
    def _by_readable(self) -> dict[str, int]:
        """The arms by their spelling without LaTeX, made when it is first asked for.

        Of those that look the same it is the arm of most sessions, then the first.
        """
        if not self.is_text:
            return {}
        raw = with_any(self.shown, RAW_BYTES) if isinstance(self.shown, TextColumn) else None
        arms = np.arange(len(self.shown)) if raw is None else raw
        found: dict[str, int] = {}
        for arm in arms[np.argsort(-self.session_counts[arms], kind="stable")].tolist():
            spelling, shown = self.shown[arm], self.readable(arm)
            if shown != spelling:
                found.setdefault(key_of(self.segment(arm), shown.casefold()), arm)
        return found

    def clean(self, query: str) -> Cleaned:
        """Clean a typed query with the rules that cleaned the log."""
        return self._cleaner(query)

    @cached_property
    def _cleaner(self) -> QueryCleaner:
        options = self._options
        return QueryCleaner(**{name: options[name] for name in CLEANING if name in options})

    @property
    def _options(self) -> Mapping[str, Any]:
        """The options that the log was read with."""
        options: Mapping[str, Any] = self.report.get("options", {})
        return options

    def meta(self) -> dict[str, Any]:
        """Return the log's manifest entry."""
        known: dict[str, Any] = {
            "k_anonymous": self.k_anonymous,
            "report": dict(self.report),
            "held_out": self.held_out,
            "for_replays": self.for_replays,
        }
        if self.named_with:
            known["named_with"] = dict(self.named_with)
        if len(self.segments):
            known["segment_names"] = list(self.segment_names)
        if self.was:
            known["was"] = [list(one) for one in self.was]
        return {**known, "known_as": self.known_as} if self.known_as else known

    def parts(self) -> dict[str, Part]:
        """Return the parts of the log to save in a folder."""
        counts: dict[str, Part] = {f"log_{name}.npy": getattr(self, name) for name in _COUNTS}
        named = enumerate(zip(_SESSIONS, self.sessions, strict=True))
        sessions: dict[str, Part] = {
            f"log_{name}.npy": array for at, (name, array) in named if at < _ALWAYS or len(array)
        }
        if self.people:
            sessions[_PEOPLE] = np.array([list(bytes.fromhex(name)) for name in self.people], "u1")
        if len(self.hits):
            counts[_HITS] = self.hits
        if len(self.segments):
            counts[_SEGMENTS] = self.segments
        if self.ledger is not None:
            sessions[_LEDGER] = self.ledger
        return {**TextColumn.of(self.shown).parts("log_shown"), **counts, **sessions}

    @classmethod
    def of(cls, folder: Folder, meta: Mapping[str, Any]) -> "Origin":
        """Load the log from an opened folder, memory-mapped."""
        counts: dict[str, Any] = {name: folder.array(f"log_{name}.npy") for name in _COUNTS}
        names = [f"log_{name}.npy" for name in _SESSIONS]
        arrays: list[Any] = [folder.array(name) if name in folder else None for name in names]
        empty: list[Any] = list(Sessions(NO_PEOPLE, NO_PEOPLE))
        sessions = Sessions(
            *(own if given is None else given for given, own in zip(arrays, empty, strict=True))
        )
        people: list[str] = []
        if _PEOPLE in folder:
            people = [row.tobytes().hex() for row in folder.array(_PEOPLE)]
        if _HITS in folder:
            counts["hits"] = folder.array(_HITS)
        if _SEGMENTS in folder:
            counts["segments"] = folder.array(_SEGMENTS)
        if _LEDGER in folder:
            counts["ledger"] = folder.file(_LEDGER)
        shown = TextColumn.open(folder, "log_shown")
        return cls(shown, **counts, sessions=sessions, people=people, **meta)
