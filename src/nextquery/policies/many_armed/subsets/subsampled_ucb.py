"""SS-UCB: an asymptotically optimal UCB on some of the arms (Bayati et al. 2020)."""

from typing import Any

import numpy as np

from nextquery.checks import number, whole_number
from nextquery.policies.many_armed.index_policy import IndexPolicy


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return x̄ + σ √(2 ln(1 + t ln² t) / s), with σ the only constant.

    The authors' code has 1 + 2 t ln t in the place of 1 + t ln² t; this is the published index.

    >>> round(float(index(0.5, 0.25, 2.0, 8, 3, (0.5,))), 4)  # 1 + 8 ln² 8 = 35.59
    1.445
    """
    ln = np.log(t)
    return mean + constants[0] * np.sqrt(2.0 * np.log(1.0 + t * ln * ln) / plays)


class SubsampledUCB(IndexPolicy):
    """Draw T^(β/2) arms and play the largest x̄ + σ √(2 ln(1 + t ln² t) / s).

    Parameters
    ----------
    horizon : T, at least 1.
    beta : β > 0: the means are distributed like Beta(1, β).
    sigma : σ > 0, the scale of the noise; 0.5 for rewards in [0, 1].
    """

    assumptions = "Many arms with P(μ* − μ ≤ ε) ~ ε^β and σ-subgaussian rewards; T known."
    regret = "Õ(√T) for β = 1; other exponents are not confirmed from a source here"
    reference = "Bayati, Hamidi, Johari, Khosravi 2020; index: Lattimore, Szepesvári 2020, ch. 8"
    index = staticmethod(index)

    def __init__(
        self, horizon: int = 1000, beta: float = 1.0, sigma: float = 0.5, *, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)
        self.beta = number(beta, "beta", low=0, above_low=True)
        self.sigma = number(sigma, "sigma", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """σ."""
        return (self.sigma,)

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms that were drawn."""
        return max(1, int(self.horizon ** (self.beta / 2) + 1e-9))
