"""UCB-F, also called UCB-∞: UCB-V on some of infinitely many arms (Wang et al. 2008)."""

import math
from typing import Any

import numpy as np

from nextquery.checks import number, whole_number
from nextquery.policies.many_armed.index_policy import IndexPolicy


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return UCB-V's x̄ + √(2 V E / s) + 3 E / s with E = 2 ln(10 ln t) and V the variance.

    >>> round(float(index(0.5, 0.25, 2.0, 8, 3, ())), 2)  # E = 6.07: 0.5 + √1.52 + 9.1
    10.84
    """
    spread = 2.0 * np.log(10.0 * np.log(t))
    return mean + np.sqrt(2.0 * variance * spread / plays) + 3.0 * spread / plays


def exponent(beta: float) -> float:
    """Return β/2 below 1, else β/(β+1): how the number of arms grows with the rounds.

    >>> exponent(0.5), exponent(1.0), exponent(3.0)
    (0.25, 0.5, 0.75)
    """
    return beta / 2 if beta < 1 else beta / (beta + 1)


def whole(size: float) -> int:
    """Round up; what exceeds a whole number only by rounding is that number.

    >>> whole(27 ** (1 / 3)), whole(3.01)
    (3, 4)
    """
    return max(1, math.ceil(size - 1e-9))


class UCBF(IndexPolicy):
    """Draw ⌈T^(β/2)⌉ arms (β < 1) or ⌈T^(β/(β+1))⌉ (β ≥ 1), and run UCB-V on them.

    The paper prints T^(β/(β+2)) for the second case; its theorem and every implementation that we
    know have β/(β+1). With T = 10,000 and β = 1 it plays 100 arms.

    Parameters
    ----------
    horizon : T, at least 1.
    beta : β > 0: P(μ* − μ ≤ ε) is about ε^β for the mean μ of an arm.
    """

    assumptions = "Infinitely many arms with rewards in [0, 1] and P(μ* − μ ≤ ε) ~ ε^β; T known."
    regret = "Õ(T^(β/(β+1))) for β > 1, Õ(√T) otherwise"
    reference = "Wang, Audibert, Munos 2008, Algorithms for infinitely many-armed bandits"
    index = staticmethod(index)

    def __init__(self, horizon: int = 1000, beta: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)
        self.beta = number(beta, "beta", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms that were drawn."""
        return whole(self.horizon ** exponent(self.beta))
