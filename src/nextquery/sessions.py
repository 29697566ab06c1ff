"""Past sessions as a few arrays, for logs of any size."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
UNTIMED = np.empty(0)
NO_PEOPLE = np.empty(0, np.int64)


class Sessions(NamedTuple):
    """Session s is ``arms[offsets[s]:offsets[s + 1]]``, ids of arms (or positions in texts).

    `times` contains the start of each session in Unix seconds, `asked` the time of every query, and
    `people` the number of the person of each session (-1: unknown); each is empty if it is not
    known. Arrays instead of a list of lists: a log of a million rows takes 24 MB and needs no loop.

    >>> sessions = Sessions(np.array([4, 7, 1, 0]), np.array([0, 3, 4]), np.array([10.0, 5.0]))
    >>> sessions.of_number(0).tolist(), sessions.size
    ([4, 7, 1], 2)
    """

    arms: Ids
    offsets: Ids
    times: Floats = UNTIMED
    asked: Floats = UNTIMED
    people: Ids = NO_PEOPLE

    @property
    def size(self) -> int:
        """The number of sessions (``len`` of a named tuple is the number of its fields)."""
        return len(self.offsets) - 1

    def of_number(self, session: int) -> Ids:
        """Return the queries of one session, in order."""
        return self.arms[self.offsets[session] : self.offsets[session + 1]]

    def lists(self) -> list[Ids]:
        """Return the queries of every session."""
        return np.split(self.arms, self.offsets[1:-1])[: self.size]

    def in_order_of_time(self) -> "Sessions":
        """Return the sessions sorted by time, earliest first. The sort is stable."""
        return self.take(np.argsort(self.times, kind="stable")) if len(self.times) else self

    def newest(self, most: int) -> "Sessions":
        """Return the newest `most` sessions, in order of time."""
        ordered = self.in_order_of_time()
        return ordered.take(np.arange(max(0, self.size - most), self.size))

    @property
    def lengths(self) -> Ids:
        """The number of queries of each session."""
        return np.diff(self.offsets)

    @property
    def timed(self) -> bool:
        """Whether the time of every query is known."""
        return len(self.asked) == len(self.arms) and bool(np.isfinite(self.asked).all())

    def take(self, which: Ids) -> "Sessions":
        """Return the sessions `which`, in that order.

        >>> Sessions.of([[0, 1], [2], [3, 4]]).take(np.array([2, 0])).arms.tolist()
        [3, 4, 0, 1]
        """
        lengths = self.lengths[which]
        offsets = _offsets(lengths)
        place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        rows = np.repeat(self.offsets[which], lengths) + place
        return Sessions(
            self.arms[rows],
            offsets,
            self.times[which] if len(self.times) else self.times,
            self.asked[rows] if len(self.asked) else self.asked,
            self.people[which] if len(self.people) else self.people,
        )

    def before(self, time: float) -> "Sessions":
        """Return what was known at a time: the queries dated before it, in sessions that had begun.

        >>> clock = Sessions.of([[0, 1], [2]])._replace(asked=np.array([1.0, 5.0, 2.0]))
        >>> clock.before(5.0).arms.tolist(), clock.before(2.0).offsets.tolist()
        ([0, 2], [0, 1])
        """
        kept = self._where(self.asked < time)
        return kept.take(np.flatnonzero(kept.lengths))

    def where(self, keep: NDArray[np.bool_]) -> "Sessions":
        """Return every session without the queries whose flag in `keep` (one per text) is False.

        >>> Sessions.of([[0, 1], [1, 2]]).where(np.array([True, False, True])).offsets.tolist()
        [0, 1, 2]
        """
        return self._where(keep[self.arms])

    def _where(self, stays: NDArray[np.bool_]) -> "Sessions":
        """Return every session without the queries whose own flag is False."""
        before = np.concatenate([[0], np.cumsum(stays)]).astype(np.int64)
        asked = self.asked[stays] if len(self.asked) else self.asked
        return self._replace(arms=self.arms[stays], offsets=before[self.offsets], asked=asked)

    def without_repeats(self) -> "Sessions":
        """Return every session without queries that repeat the one just before: they are one query.

        >>> Sessions.of([[1, 1, 0, 1], [1]]).without_repeats().arms.tolist()
        [1, 0, 1, 1]
        """
        stays = np.ones(len(self.arms), bool)
        stays[1:] = self.arms[1:] != self.arms[:-1]
        stays[self.offsets[:-1][self.lengths > 0]] = True
        return self if stays.all() else self._where(stays)

    def distinct(self) -> "Sessions":
        """Return every session without repeated queries, keeping the first of each.

        >>> Sessions.of([[1, 0, 1], [1]]).distinct().arms.tolist()
        [1, 0, 1]
        """
        session = np.repeat(np.arange(self.size), self.lengths)
        width = int(self.arms.max(initial=0)) + 1
        _, first = np.unique(session * width + self.arms, return_index=True)
        stays = np.zeros(len(self.arms), bool)
        stays[first] = True
        return self._where(stays)

    def pairs(self, rng: np.random.Generator, batch: int) -> tuple[Ids, Ids]:
        """Draw two different queries from each of `batch` sessions (or from all, if fewer).

        Every session must have at least two queries, without repeats (see `distinct`).

        >>> left, right = Sessions.of([[5, 7]]).pairs(np.random.default_rng(0), 3)
        >>> sorted([*left.tolist(), *right.tolist()])
        [5, 7]
        """
        chosen = rng.choice(self.size, min(batch, self.size), replace=False)
        first, lengths = self.offsets[chosen], self.lengths[chosen]
        left = rng.integers(lengths)
        right = (left + rng.integers(1, lengths)) % lengths
        return self.arms[first + left], self.arms[first + right]

    @classmethod
    def of(
        cls, sessions: "Sequence[Sequence[int]] | Sessions", texts: int | None = None
    ) -> "Sessions":
        """Convert sessions to arrays, checked against the number of `texts` (or arms).

        >>> Sessions.of([[0, 1, 0], [2]]).offsets.tolist()
        [0, 3, 4]
        """
        times, asked, people = UNTIMED, UNTIMED, NO_PEOPLE
        if isinstance(sessions, Sessions):
            arms, offsets = np.asarray(sessions.arms), np.asarray(sessions.offsets)
            times = np.asarray(sessions.times, np.float64)
            asked = np.asarray(sessions.asked, np.float64)
            people = np.asarray(sessions.people, np.int64)
        else:
            offsets = _offsets(np.array([len(session) for session in sessions], np.int64))
            arms = np.array([arm for session in sessions for arm in session])
        arms = arms.astype(np.int64) if not arms.size else arms
        _check(arms, offsets, texts)
        for name, row, size, of in (
            ("times", times, len(offsets) - 1, "session"),
            ("asked", asked, len(arms), "query"),
            ("people", people, len(offsets) - 1, "session"),
        ):
            if row.shape not in ((0,), (size,)):
                raise InvalidInput(
                    f"{name} must have one number per {of}, {size}, or be empty; received shape "
                    f"{row.shape}."
                )
        whole = arms.astype(np.int64, copy=False), offsets.astype(np.int64, copy=False)
        return cls(*whole, times, asked, people)


AnySessions = Sequence[Sequence[int]] | Sessions


def _offsets(lengths: Ids) -> Ids:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _check(arms: Ids, offsets: Ids, texts: int | None) -> None:
    whole = arms.dtype.kind in "iu" and offsets.dtype.kind in "iu"
    if not whole or arms.ndim != 1 or offsets.ndim != 1:
        raise InvalidInput(
            "sessions must have two rows of whole numbers, the ids of their queries and the "
            f"offsets; received {arms.dtype} of shape {arms.shape} and {offsets.dtype} of shape "
            f"{offsets.shape}."
        )
    rises = len(offsets) and offsets[0] == 0 and offsets[-1] == len(arms)
    if not rises or (np.diff(offsets) < 0).any():
        raise InvalidInput(
            f"offsets must rise from 0 to {len(arms)}, the number of queries; received "
            f"{offsets[:3].tolist()} … {offsets[-1:].tolist()}. Session i is "
            "arms[offsets[i]:offsets[i+1]]."
        )
    outside = (arms < 0) if texts is None else (arms < 0) | (arms >= texts)
    if outside.any():
        allowed = "0 or more" if texts is None else f"from 0 to {texts - 1}"
        raise InvalidInput(
            f"sessions contain query {arms[outside][0]}; ids must be {allowed}. Pass the texts, "
            "or the pool, that the sessions were made with."
        )
