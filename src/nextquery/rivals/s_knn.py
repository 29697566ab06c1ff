"""S-KNN: session-based k nearest neighbours."""

import numpy as np

from nextquery.checks import one_of, whole_number
from nextquery.memory import SessionMemory
from nextquery.rivals.base import Rival, Step, summed
from nextquery.rivals.neighbours import NeighbourIndex, best_neighbours
from nextquery.sessions import Floats, Ids

SIMILARITIES = ("cosine", "jaccard")


class SKnn(Rival):
    """Recommend the queries of past sessions that share many queries with this one.

    Let s and n be the sets of queries of the session and of a past session:

    - sim(n) = |s ∩ n| / √(|s|·|n|) (``cosine``) or |s ∩ n| / |s ∪ n| (``jaccard``)
    - score(x) = Σ sim(n) over the `neighbours` most similar n that contain x

    The order within a session does not count.

    Parameters
    ----------
    neighbours : number of past sessions that count, at least 1.
    sample : number of newest past sessions, sharing a query, to choose them from, at least 1.
    similarity : ``cosine`` or ``jaccard``.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1, 2], [1, 3], [0, 4, 5, 6]]))
    >>> SKnn(past).rank(Step(before=9, history=[0, 1]), 5).tolist()
    [2, 3, 4, 5, 6]

    Jannach and Ludewig, "When Recurrent Neural Networks meet the Neighborhood for Session-Based
    Recommendation", RecSys 2017.
    """

    def __init__(
        self,
        memory: SessionMemory,
        *,
        neighbours: int = 500,
        sample: int = 1000,
        similarity: str = "cosine",
    ) -> None:
        super().__init__(memory)
        self.neighbours = whole_number(neighbours, "neighbours", at_least=1)
        self.sample = whole_number(sample, "sample", at_least=1)
        self.similarity = one_of(similarity, "similarity", SIMILARITIES)
        self._index = NeighbourIndex(memory)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        found = self._index.find(step, sample=self.sample)
        if not len(found.starts):
            return np.empty(0, np.int64), np.empty(0)
        common = np.bincount(found.owner, found.first & (found.shared > 0))
        size, own = np.bincount(found.owner, found.first), len(set(step.history))
        cosine = self.similarity == "cosine"
        similarities = common / (np.sqrt(own * size) if cosine else own + size - common)
        used = found.first & found.of(best_neighbours(similarities, self.neighbours))
        return summed(found.arms[used], similarities[found.owner[used]])
