"""Policies that do not learn: the baselines of the paper."""

import numpy as np

from nextquery.checks import whole_number
from nextquery.policies.policy import Floats, Policy
from nextquery.selection.selector import Candidates


class MostSimilar(Policy):
    """Choose uniformly among the `top` most preferred candidates.

    Parameters
    ----------
    top : at least 1; 5 in the text of the paper.

    >>> import nextquery as nq
    >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
    >>> candidates = nq.MaxUtility(k=2).select(pool, [1, 0], exclude=[0])
    >>> choice = MostSimilar(top=1).choose(candidates, nq.Context([1, 0]))
    >>> pool.texts[choice.arm], choice.propensity
    ('b', 1.0)
    """

    assumptions = "Similar queries follow each other; it learns nothing."
    reference = "Parambath et al. 2021, baseline"

    def __init__(self, top: int = 5, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.top = whole_number(top, "top", at_least=1)

    @property
    def needs_preferences(self) -> bool:
        """The score of a candidate is its preference."""
        return True

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        return candidates.preferences

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        best = np.lexsort((candidates.arms, -candidates.preferences))[: self.top]
        probabilities = np.zeros(len(candidates))
        probabilities[best] = 1.0 / best.size
        return probabilities


class RandomPolicy(Policy):
    """Choose any candidate uniformly.

    >>> import nextquery as nq
    >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
    >>> candidates = nq.MaxUtility(k=2).select(pool, [1, 0], exclude=[0])
    >>> RandomPolicy(seed=1).choose(candidates, nq.Context([1, 0])).propensity
    0.5
    """

    assumptions = "None; it learns nothing."
    regret = "linear in T"
    reference = "Parambath et al. 2021, baseline"

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed)

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        return np.full(len(candidates), 1.0 / len(candidates))
