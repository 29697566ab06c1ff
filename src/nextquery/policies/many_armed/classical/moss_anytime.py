"""MOSS-anytime: MOSS without a known horizon (Degenne and Perchet 2016)."""

from typing import Any

import numpy as np

from nextquery.checks import number
from nextquery.policies.many_armed.index_policy import IndexPolicy


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return x̄ + √((1 + α)/2 · max(ln(n / (K s)), 0) / s), with n = t − 1 plays; α is constant.

    >>> round(float(index(0.5, 0.25, 2.0, 101, 5, (1.0,))), 4)  # 0.5 + √(ln(10) / 2)
    1.573
    """
    spread = np.maximum(np.log((t - 1.0) / (arms * plays)), 0.0) / plays
    return mean + np.sqrt(0.5 * (1.0 + constants[0]) * spread)


class MossAnytime(IndexPolicy):
    """Play the largest x̄ + √((1 + α)/2 · max(ln(n / (K s)), 0) / s), n plays so far.

    Parameters
    ----------
    bonus : α, at least 0; 1.35 is the value that SMPyBandits found best.
    """

    assumptions = "Rewards in [0, 1], independent; the number of rounds may be unknown."
    regret = "O(√(K T))"
    reference = (
        "Degenne, Perchet 2016, Anytime optimal algorithms in stochastic multi-armed bandits"
    )
    index = staticmethod(index)

    def __init__(self, bonus: float = 1.35, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.bonus = number(bonus, "bonus", low=0)

    @property
    def constants(self) -> tuple[float, ...]:
        """α."""
        return (self.bonus,)
