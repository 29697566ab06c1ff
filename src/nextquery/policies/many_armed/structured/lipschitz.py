"""What OSLB and CKL-UCB share: rewards of 0 and 1 whose means differ by at most L times d."""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number
from nextquery.policies.base import Floats
from nextquery.policies.many_armed.index_policy import IndexPolicy
from nextquery.policies.many_armed.structured.metric import distances
from nextquery.selection.selector import Candidates


def divergence(p: Floats, q: Floats, edge: float = 1e-15) -> Floats:
    """Return KL(p, q) of Bernoulli distributions, both kept within [edge, 1 − edge].

    >>> divergence(np.array([0.5, 0.2]), np.array([0.25, 0.2])).round(4).tolist()
    [0.1438, 0.0]
    """
    p, q = np.clip(p, edge, 1.0 - edge), np.clip(q, edge, 1.0 - edge)
    return np.asarray(p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q)))


class LipschitzPolicy(IndexPolicy):
    """Its score is 1 for the arms that it may play and 0 for others; ties are broken at random.

    `_eligible` has plays, means, t and the distances of the arms: angle/π between their vectors.
    """

    def __init__(self, lipschitz: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.lipschitz = number(lipschitz, "lipschitz", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """L; there is no index."""
        return (self.lipschitz,)

    @abstractmethod
    def _eligible(self, plays: Floats, means: Floats, t: int, apart: Floats) -> NDArray[np.bool_]:
        """Return which arms may be played; t is the number of plays so far."""

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        if not len(candidates):
            return np.empty(0)
        plays, means = self._seen.plays_and_means(candidates.arms)
        apart = distances(candidates.vectors, candidates.vectors)
        return self._eligible(plays, means, self._seen.updates, apart).astype(np.float64)
