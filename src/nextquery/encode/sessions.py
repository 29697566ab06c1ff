"""Sessions as two arrays: what an encoder learns from, whatever the size of the log."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput

Ids = NDArray[np.int64]


class Sessions(NamedTuple):
    """Session s is ``arms[offsets[s]:offsets[s + 1]]``, positions in the texts, in order of time.

    Two arrays instead of a list of lists: a log of a million rows is 16 MB and no loop.
    """

    arms: Ids
    offsets: Ids

    @property
    def size(self) -> int:
        """How many sessions (``len`` of a named tuple of two arrays is 2)."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Ids:
        """How many queries each session has."""
        return np.diff(self.offsets)

    def take(self, which: Ids) -> "Sessions":
        """The sessions `which`, in that order.

        >>> Sessions.of([[0, 1], [2], [3, 4]]).take(np.array([2, 0])).arms.tolist()
        [3, 4, 0, 1]
        """
        lengths = self.lengths[which]
        offsets = _offsets(lengths)
        place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Sessions(self.arms[np.repeat(self.offsets[which], lengths) + place], offsets)

    def where(self, keep: NDArray[np.bool_]) -> "Sessions":
        """Every session without the rows that `keep` (one flag per text) refuses.

        >>> Sessions.of([[0, 1], [1, 2]]).where(np.array([True, False, True])).offsets.tolist()
        [0, 1, 2]
        """
        stays = keep[self.arms]
        before = np.concatenate([[0], np.cumsum(stays)]).astype(np.int64)
        return Sessions(self.arms[stays], before[self.offsets])

    def distinct(self) -> "Sessions":
        """Every session with each query once, where it came first.

        >>> Sessions.of([[1, 0, 1], [1]]).distinct().arms.tolist()
        [1, 0, 1]
        """
        whose = np.repeat(np.arange(self.size), self.lengths)
        width = int(self.arms.max(initial=0)) + 1
        _, first = np.unique(whose * width + self.arms, return_index=True)
        first.sort()
        counts = np.bincount(whose[first], minlength=self.size)
        return Sessions(self.arms[first], _offsets(counts))

    def pairs(self, rng: np.random.Generator, batch: int) -> tuple[Ids, Ids]:
        """Two different queries of each of `batch` sessions (of all, where there are fewer).

        Every session holds each query once (see `distinct`) and at least two of them.

        >>> left, right = Sessions.of([[5, 7]]).pairs(np.random.default_rng(0), 3)
        >>> sorted([*left.tolist(), *right.tolist()])
        [5, 7]
        """
        chosen = rng.choice(self.size, min(batch, self.size), replace=False)
        first, lengths = self.offsets[chosen], self.lengths[chosen]
        one = rng.integers(lengths)
        other = (one + rng.integers(1, lengths)) % lengths
        return self.arms[first + one], self.arms[first + other]

    @classmethod
    def of(
        cls, sessions: "Sequence[Sequence[int]] | Sessions", texts: int | None = None
    ) -> "Sessions":
        """Sessions in any form as two arrays, checked against the number of `texts`.

        >>> Sessions.of([[0, 1, 0], [2]]).offsets.tolist()
        [0, 3, 4]
        """
        if isinstance(sessions, Sessions):
            arms, offsets = np.asarray(sessions.arms), np.asarray(sessions.offsets)
        else:
            offsets = _offsets(np.array([len(session) for session in sessions], np.int64))
            arms = np.array([arm for session in sessions for arm in session])
        arms = arms.astype(np.int64) if not arms.size else arms
        _check(arms, offsets, texts)
        return cls(arms.astype(np.int64, copy=False), offsets.astype(np.int64, copy=False))


AnySessions = Sequence[Sequence[int]] | Sessions


def _offsets(lengths: Ids) -> Ids:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _check(arms: NDArray[np.int64], offsets: NDArray[np.int64], texts: int | None) -> None:
    if arms.ndim != 1 or arms.dtype.kind not in "iu" or offsets.dtype.kind not in "iu":
        raise InvalidInput(
            "sessions must hold whole numbers, the positions of their queries in the texts; "
            f"received {arms.dtype}. Look the positions up first."
        )
    if (
        not len(offsets)
        or offsets[0] != 0
        or offsets[-1] != len(arms)
        or (np.diff(offsets) < 0).any()
    ):
        raise InvalidInput(
            f"offsets must rise from 0 to {len(arms)}, the number of rows; received "
            f"{offsets[:3].tolist()} … {offsets[-1:].tolist()}."
        )
    outside = (arms < 0) if texts is None else (arms < 0) | (arms >= texts)
    if outside.any():
        allowed = "0 or more" if texts is None else f"from 0 to {texts - 1}"
        raise InvalidInput(
            f"sessions name text {arms[outside][0]}; allowed are positions {allowed}. "
            "Give the texts and the sessions of the same log."
        )
