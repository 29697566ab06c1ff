"""What earlier sessions say: who followed whom, who stood near whom, how often each was asked.

The log itself is the memory. Sessions lie in order of time in one long row; every arm knows its
places in that row, in order. "Learnt so far" is then only a position: places before it count. So
nothing is stored twice, and a memory can be frozen at any moment by fixing that position.
"""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from nextquery.sessions import Ids, Sessions

NEAR = 5  # how far apart two queries of a session may stand and still count as together


class SessionMemory:
    """A searchable past.

    >>> past = Sessions(np.array([7, 8, 9, 7, 8]), np.array([0, 3, 5]), np.array([0.0, 1.0]))
    >>> memory = SessionMemory(past, arms=10)
    >>> memory.support(np.array([7, 9]), before=3).tolist()
    [1, 1]
    >>> dict(memory.followers([7], before=3))
    {8: 1.0}
    """

    def __init__(self, sessions: Sessions, arms: int) -> None:
        self.sessions = sessions
        self._row = sessions.arms
        self._places = np.argsort(self._row, kind="stable")
        self._starts = np.searchsorted(self._row[self._places], np.arange(arms + 1))
        self._span = len(self._row) + 1
        self._keys = self._row[self._places] * self._span + self._places
        lengths = np.diff(sessions.offsets)
        self._begin = np.repeat(sessions.offsets[:-1], lengths)
        self._end = np.repeat(sessions.offsets[1:], lengths)

    def places(self, arm: int, before: int, most: int | None = None) -> NDArray[np.intp]:
        """Where an arm stands in the row, before a position: all places, or the newest `most`."""
        mine = self._places[self._starts[arm] : self._starts[arm + 1]]
        end = int(np.searchsorted(mine, before))
        return mine[0 if most is None else max(0, end - most) : end]

    def support(self, arms: Ids, before: int) -> Ids:
        """How often each arm was asked before a position."""
        upto = np.searchsorted(self._keys, arms * self._span + before)
        return (upto - self._starts[arms]).astype(np.int64)

    def counts(self, before: int) -> Ids:
        """How often every arm was asked before a position."""
        return np.bincount(self._row[:before], minlength=len(self._starts) - 1)

    def followers(
        self, history: list[int], before: int, *, memory: int = 1, most: int | None = None
    ) -> dict[int, float]:
        """What came next in earlier sessions after the same last queries, up to `memory` of them.

        With ``memory=2`` only places count where the last two queries were the same; with `most`
        only the newest places of the last query.
        """
        found: dict[int, float] = defaultdict(float)
        if len(history) < memory:
            return found
        for place in self.places(history[-1], before, most).tolist():
            first = place - memory + 1
            if place + 1 < self._end[place] and first >= self._begin[place]:
                same = self._row[first : place + 1].tolist() == history[-memory:]
                if same:
                    found[int(self._row[place + 1])] += 1.0
        return found

    def together(
        self, history: list[int], before: int, *, most: int | None = None
    ) -> dict[int, float]:
        """What stood near any of these queries in earlier sessions, weighted by 1/distance."""
        found: dict[int, float] = defaultdict(float)
        for arm in history:
            for place in self.places(arm, before, most).tolist():
                low = max(int(self._begin[place]), place - NEAR)
                high = min(int(self._end[place]), place + NEAR + 1)
                for at in range(low, high):
                    if at != place:
                        found[int(self._row[at])] += 1.0 / abs(at - place)
        return found
