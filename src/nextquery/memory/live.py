"""The queries of live sessions, asked since the log ended, in bounded space.

Every query is one row: the query, then the session's queries before it, newest first. Each entry
links to the arm's previous place, so that all places of an arm can be found, newest first. The
oldest rows are overwritten.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.compiled import compiled
from nextquery.memory.past import NEAR
from nextquery.memory.recalled import Mentions
from nextquery.sessions import Ids

_WIDTH = NEAR + 1
_NO_ARM = -1
_WEIGHTS = 1.0 / np.arange(1, _WIDTH)
ROWS = 200_000


class LiveMemory:
    """Which query followed which in live sessions.

    >>> memory = LiveMemory()
    >>> memory.add(8, history=[7])
    >>> memory.add(9, history=[7, 8])
    >>> mentions = memory.mentions([7], most=10, earlier=10)
    >>> mentions.followers.tolist(), mentions.near.tolist(), mentions.weights.tolist()
    ([8], [9, 8], [0.5, 1.0])
    >>> memory.support(np.array([8, 7])).tolist()
    [1, 0]
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows
        self.count = 0  # rows ever added
        self._arms = np.full((0, _WIDTH), _NO_ARM, np.int64)
        self._links = np.full((0, _WIDTH), _NO_ARM, np.int64)
        self._last: dict[int, int] = {}  # by arm: its newest place, as row × width + column
        self._support = np.zeros(0, np.int64)  # by arm

    def add(self, arm: int, history: Sequence[int]) -> None:
        """Record that an arm was asked; `history` has the session's earlier arms, newest last."""
        if arm >= len(self._support):
            self._support = _longer(self._support, max(64, 2 * len(self._support), arm + 1), 0)
        self._support[arm] += 1
        at = self.count % self.rows
        if at >= len(self._arms):
            self._grow()
        row = [arm, *list(history)[:-_WIDTH:-1]]
        row += [_NO_ARM] * (_WIDTH - len(row))
        self._arms[at] = row
        for column, entry in enumerate(row):
            if entry != _NO_ARM:
                self._links[at, column] = self._last.get(entry, _NO_ARM)
                self._last[entry] = self.count * _WIDTH + column
        self.count += 1

    def support(self, arms: Ids) -> Ids:
        """Return how often each arm was asked."""
        if not len(self._support):
            return np.zeros(len(arms), np.int64)
        known = arms < len(self._support)
        return np.where(known, self._support[np.where(known, arms, 0)], 0)

    def mentions(self, history: Sequence[int], *, most: int, earlier: int) -> Mentions:
        """Look up the newest places of a session's queries; see `SessionMemory.mentions`."""
        last = len(history) - 1
        places = [
            self._places(arm, most if number == last else earlier)
            for number, arm in enumerate(history)
        ]
        everywhere = np.concatenate([np.empty(0, np.int64), *places])
        rows, columns = self._arms[(everywhere // _WIDTH) % self.rows], everywhere % _WIDTH
        first = columns == 0  # the arm was the query itself, followed by its history
        before = rows[first, 1:]
        asked = before != _NO_ARM
        near = np.concatenate([before[asked], rows[~first, 0]])
        weights = np.broadcast_to(_WEIGHTS, before.shape)[asked]
        weights = np.concatenate([weights, 1.0 / np.maximum(columns[~first], 1)])
        here = places[-1] if places else everywhere
        next_rows = self._arms[(here[here % _WIDTH == 1] // _WIDTH) % self.rows]
        same = next_rows[:, 2] == (history[-2] if last > 0 else _NO_ARM - 1)
        return Mentions(near, weights, next_rows[:, 0], next_rows[same, 0])

    def _places(self, arm: int, most: int) -> Ids:
        """Return the places of an arm, newest first."""
        places = np.empty(min(most, self.count * _WIDTH), np.int64)
        oldest = max(0, self.count - self.rows) * _WIDTH
        newest = self._last.get(arm, _NO_ARM)
        return places[: compiled(_follow)(self._links, newest, oldest, self.rows, places)]

    def _grow(self) -> None:
        size = min(self.rows, max(64, 2 * len(self._arms)))
        self._arms = _longer(self._arms, size, _NO_ARM)
        self._links = _longer(self._links, size, _NO_ARM)

    def copy(self) -> "LiveMemory":
        """Return an independent copy."""
        twin = LiveMemory(self.rows)
        twin.count, twin._last = self.count, self._last.copy()
        twin._arms, twin._links = self._arms.copy(), self._links.copy()
        twin._support = self._support.copy()
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the memory as arrays."""
        used = min(self.count, self.rows)
        return {
            "rows": np.array([self.rows, self.count]),
            "arms": self._arms[:used].copy(),
            "links": self._links[:used].copy(),
            "last": np.array(sorted(self._last.items()), np.int64).reshape(-1, 2),
            "support": np.trim_zeros(self._support, "b"),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> "LiveMemory":
        """Create a memory from a `state`."""
        rows, count = state["rows"].tolist()
        memory = cls(rows)
        memory.count = count
        memory._arms, memory._links = np.array(state["arms"]), np.array(state["links"])
        memory._last = dict(state["last"].tolist())
        memory._support = np.array(state["support"])
        return memory


def _follow(links: Ids, place: int, oldest: int, rows: int, places: Ids) -> int:
    """Fill `places` by following the links from `place`. Returns how many there are."""
    count = 0
    while place >= oldest and place >= 0 and count < len(places):
        places[count] = place
        count += 1
        place = links[(place // links.shape[1]) % rows, place % links.shape[1]]
    return count


def _longer(rows: NDArray[np.int64], size: int, filler: int) -> NDArray[np.int64]:
    grown = np.full((size, *rows.shape[1:]), filler, np.int64)
    grown[: len(rows)] = rows
    return grown
