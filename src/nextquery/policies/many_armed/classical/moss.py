"""MOSS: minimax optimal for a known horizon (Audibert and Bubeck 2009)."""

from typing import Any

import numpy as np

from nextquery.checks import whole_number
from nextquery.policies.many_armed.index_policy import IndexPolicy


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return x̄ + √(max(ln(T / (K s)), 0) / s), with T the only constant.

    >>> round(float(index(0.5, 0.25, 2.0, 8, 5, (100.0,))), 4)  # 0.5 + √(ln(10) / 2)
    1.573
    >>> float(index(0.5, 0.25, 20.0, 8, 5, (100.0,)))
    0.5
    """
    return mean + np.sqrt(np.maximum(np.log(constants[0] / (arms * plays)), 0.0) / plays)


class MOSS(IndexPolicy):
    """Play the largest x̄ + √(max(ln(T / (K s)), 0) / s).

    Parameters
    ----------
    horizon : T, the number of rounds; at least 1.
    """

    assumptions = "Rewards in [0, 1], independent; the number of rounds is known."
    regret = "O(√(K T))"
    reference = "Audibert, Bubeck 2009, Minimax policies for adversarial and stochastic bandits"
    index = staticmethod(index)
    fixed = True

    def __init__(self, horizon: int = 1000, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)

    @property
    def constants(self) -> tuple[float, ...]:
        """T."""
        return (float(self.horizon),)
