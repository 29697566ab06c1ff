"""VS-KNN: vector multiplication session-based k nearest neighbours."""

import numpy as np

from nextquery.checks import whole_number
from nextquery.memory import SessionMemory
from nextquery.rivals.base import Rival, Step, summed
from nextquery.rivals.neighbours import NeighbourIndex, best_neighbours
from nextquery.sessions import Floats, Ids


class VsKnn(Rival):
    """Recommend the queries of past sessions that share the session's latest queries.

    Let s be the session, of l queries, and n a past session:

    - weight of the query at place i of s: w = i/l (of repeated queries, the last place counts)
    - sim(n) = Σ w(x) over the queries x in both, divided by the number of different queries of s
    - score(x) = Σ sim(n)/step(n) over the `neighbours` most similar n that contain x, where step(n)
      is 1 if the last query of s is in n, 2 if only the one before it is, and so on

    Parameters
    ----------
    neighbours : number of past sessions that count, at least 1.
    sample : number of newest past sessions, sharing a query, to choose them from, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1, 2], [1, 3], [0, 4]]))
    >>> VsKnn(past).rank(Step(before=7, history=[0, 1]), 5).tolist()
    [2, 3, 4]

    Ludewig and Jannach, "Evaluation of Session-based Recommendation Algorithms", 2018.
    """

    def __init__(self, memory: SessionMemory, *, neighbours: int = 500, sample: int = 1000) -> None:
        super().__init__(memory)
        self.neighbours = whole_number(neighbours, "neighbours", at_least=1)
        self.sample = whole_number(sample, "sample", at_least=1)
        self._index = NeighbourIndex(memory)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        found = self._index.find(step, sample=self.sample)
        if not len(found.starts):
            return np.empty(0, np.int64), np.empty(0)
        length = len(step.history)
        weights = found.first * found.shared / length
        similarities = np.bincount(found.owner, weights) / len(set(step.history))
        decayed = similarities / (length + 1 - np.maximum.reduceat(found.shared, found.starts))
        used = found.first & found.of(best_neighbours(similarities, self.neighbours))
        return summed(found.arms[used], decayed[found.owner[used]])
