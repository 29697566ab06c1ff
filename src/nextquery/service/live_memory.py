"""What the log itself remembers: the queries of live sessions, in bounded space.

Every decision whose anchor is an arm is one row: the anchor, then the session's queries before it,
newest first. Wherever an arm stands in a row, a link leads to the place where it stood before, so
that all its places are found, the newest first. The oldest rows are overwritten.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.memory import Recalled
from nextquery.memory.past import NEAR

_WIDTH = NEAR + 1
_NOBODY = -1
ROWS = 200_000


class LiveMemory:
    """Who followed whom in live sessions.

    >>> memory = LiveMemory()
    >>> memory.add(8, history=[7])
    >>> memory.add(9, history=[7, 8])
    >>> recalled = memory.recall([7], most=10, earlier=10)
    >>> dict(recalled.followers), dict(recalled.near), memory.support(np.array([8, 7])).tolist()
    ({8: 1.0}, {9: 0.5, 8: 1.0}, [1, 0])
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows
        self.count = 0  # rows ever added
        self._arms = np.full((0, _WIDTH), _NOBODY, np.int64)
        self._links = np.full((0, _WIDTH), _NOBODY, np.int64)
        self._last: dict[int, int] = {}  # by arm: its newest place, as row × width + column
        self._support = np.zeros(0, np.int64)  # by arm

    def add(self, arm: int, history: Sequence[int]) -> None:
        """An arm was asked; `history` holds the session's earlier arms, the newest last."""
        if arm >= len(self._support):
            self._support = _longer(self._support, max(64, 2 * len(self._support), arm + 1), 0)
        self._support[arm] += 1
        at = self.count % self.rows
        if at >= len(self._arms):
            self._grow()
        row = [arm, *list(history)[:-_WIDTH:-1]]
        row += [_NOBODY] * (_WIDTH - len(row))
        self._arms[at] = row
        for column, one in enumerate(row):
            if one != _NOBODY:
                self._links[at, column] = self._last.get(one, _NOBODY)
                self._last[one] = self.count * _WIDTH + column
        self.count += 1

    def support(self, arms: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often each arm was asked."""
        if not len(self._support):
            return np.zeros(len(arms), np.int64)
        known = arms < len(self._support)
        return np.where(known, self._support[np.where(known, arms, 0)], 0)

    def recall(self, history: Sequence[int], *, most: int, earlier: int) -> Recalled:
        """What the newest places of a session's queries say.

        Of its last query `most` places are looked at, of each one before it `earlier` places.
        """
        followers: dict[int, float] = defaultdict(float)
        longer: dict[int, float] = defaultdict(float)
        near: dict[int, float] = defaultdict(float)
        before = history[-2] if len(history) > 1 else None
        for number, arm in enumerate(history):
            running = number == len(history) - 1
            for row, column in self._places(arm, most if running else earlier):
                if column == 0:
                    for distance, other in enumerate(row[1:], start=1):
                        if other != _NOBODY:
                            near[other] += 1.0 / distance
                    continue
                near[row[0]] += 1.0 / column
                if running and column == 1:
                    followers[row[0]] += 1.0
                    if before is not None and row[2] == before:
                        longer[row[0]] += 1.0
        return Recalled(followers, longer, near)

    def _places(self, arm: int, most: int) -> list[tuple[list[int], int]]:
        """The rows in which an arm stands, and where, newest first."""
        places: list[tuple[list[int], int]] = []
        place, oldest = self._last.get(arm, _NOBODY), max(0, self.count - self.rows) * _WIDTH
        while place >= oldest and place != _NOBODY and len(places) < most:
            at, column = (place // _WIDTH) % self.rows, place % _WIDTH
            places.append((self._arms[at].tolist(), column))
            place = int(self._links[at, column])
        return places

    def _grow(self) -> None:
        size = min(self.rows, max(64, 2 * len(self._arms)))
        self._arms = _longer(self._arms, size, _NOBODY)
        self._links = _longer(self._links, size, _NOBODY)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything, as arrays."""
        used = min(self.count, self.rows)
        return {
            "rows": np.array([self.rows, self.count]),
            "arms": self._arms[:used].copy(),
            "links": self._links[:used].copy(),
            "last": _pairs(self._last),
            "support": np.trim_zeros(self._support, "b"),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> "LiveMemory":
        """The memory whose `state` this is."""
        rows, count = state["rows"].tolist()
        memory = cls(rows)
        memory.count = count
        memory._arms, memory._links = np.array(state["arms"]), np.array(state["links"])
        memory._last = dict(state["last"].tolist())
        memory._support = np.array(state["support"])
        return memory


def _longer(rows: NDArray[np.int64], size: int, filler: int) -> NDArray[np.int64]:
    grown = np.full((size, *rows.shape[1:]), filler, np.int64)
    grown[: len(rows)] = rows
    return grown


def _pairs(values: Mapping[int, int]) -> NDArray[np.int64]:
    return np.array(sorted(values.items()), np.int64).reshape(-1, 2)
