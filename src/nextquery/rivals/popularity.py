"""Popularity: the queries that were asked most often."""

import numpy as np

from nextquery.memory import SessionMemory
from nextquery.rivals.base import Rival, Step
from nextquery.sessions import Floats, Ids


class Popularity(Rival):
    """Recommend the most frequent queries so far, whatever the current query is.

    score(x) = how often x was asked.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1], [2, 1], [2, 2]]))
    >>> Popularity(past).rank(Step(before=6, history=[0]), 5).tolist()
    [2, 1]
    """

    def __init__(self, memory: SessionMemory) -> None:
        super().__init__(memory)
        self._by_clock = np.empty_like(memory.sessions.arms)
        self._by_clock[memory.positions] = memory.sessions.arms
        self._before, self._counts = 0, np.zeros(memory.arms, np.int64)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        """Move the counts from the last step to this one; the steps may come in any order."""
        low, high = sorted((self._before, step.before))
        change = np.bincount(self._by_clock[low:high], minlength=self.memory.arms)
        self._counts += change if step.before == high else -change
        self._before = step.before
        found = np.flatnonzero(self._counts)
        return found, self._counts[found].astype(np.float64)
