"""N-grams: what came after the same last few queries."""

from collections.abc import Iterator

import numpy as np

from nextquery.checks import whole_number
from nextquery.memory import SessionMemory
from nextquery.rivals.base import Rival, Step, summed
from nextquery.sessions import Floats, Ids


class NGram(Rival):
    """Recommend what followed the longest end of the session that occurred before.

    If it has too few followers, shorter ends fill the list; each end's followers come by count.

    Parameters
    ----------
    longest : number of last queries to look for, at least 1.
    places : newest places of the current query to look at, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 2, 3], [5, 2, 3], [1, 2, 4]]))
    >>> NGram(past).rank(Step(before=9, history=[1, 2]), 5).tolist()
    [4, 3]

    After He et al., "Web Query Recommendation via Sequential Query Prediction", ICDE 2009.
    """

    def __init__(self, memory: SessionMemory, *, longest: int = 3, places: int = 10_000) -> None:
        super().__init__(memory)
        self.longest = whole_number(longest, "longest", at_least=1)
        self.places = whole_number(places, "places", at_least=1)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        """Score by length first (the whole part) and by count among equals (the fraction)."""
        scores = np.zeros(self.memory.arms)
        for length, followed in self._ends(step):
            arms, counts = summed(followed)
            scores[arms] = length + counts / (len(followed) + 1)
        found = np.flatnonzero(scores)
        return found, scores[found]

    def _ends(self, step: Step) -> Iterator[tuple[int, Ids]]:
        """Yield the ends of the session to use, the shortest first: length and followers."""
        for length in range(1, min(self.longest, len(step.history)) + 1):
            yield (
                length,
                self.memory.followers(step.history, step.before, length=length, most=self.places),
            )

    def _shares(self, scores: Floats) -> Floats:
        """Return the fraction: the share among the followers of the end that an arm came after."""
        return scores % 1.0
