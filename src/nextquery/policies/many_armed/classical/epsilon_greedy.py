"""ε-greedy: the best mean, and sometimes any arm."""

from typing import Any

import numpy as np

from nextquery.checks import number
from nextquery.policies.base import Floats
from nextquery.policies.many_armed.index_policy import IndexPolicy
from nextquery.selection.selector import Candidates


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return the mean.

    >>> index(0.5, 0.25, 2.0, 8, 3, ())
    0.5
    """
    return mean


class EpsilonGreedy(IndexPolicy):
    """With probability ε any arm, else the one with the best mean; unplayed arms come first.

    Parameters
    ----------
    epsilon : ε in [0, 1].
    """

    assumptions = "None; with a fixed ε the regret grows linearly, by ε times the mean gap."
    regret = "linear in T for a fixed ε"
    reference = "Auer, Cesa-Bianchi, Fischer 2002 (with a fixed ε)"
    index = staticmethod(index)
    fixed = True

    def __init__(self, epsilon: float = 0.1, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.epsilon = number(epsilon, "epsilon", low=0, high=1)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        greedy = super()._probabilities(candidates, features, scores, rng)
        return (1.0 - self.epsilon) * greedy + self.epsilon / len(candidates)
