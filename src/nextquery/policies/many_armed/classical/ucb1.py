"""UCB1: the mean, and a bonus for arms that were played little (Auer et al. 2002)."""

from typing import Any

import numpy as np

from nextquery.policies.many_armed.index_policy import IndexPolicy


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return x̄ + √(2 ln n / s), with n = t − 1 plays so far.

    >>> round(float(index(0.5, 0.25, 2.0, 9, 3, ())), 4)  # 0.5 + √ln 8
    1.942
    """
    return mean + np.sqrt(2.0 * np.log(t - 1.0) / plays)


class UCB1(IndexPolicy):
    """Play every arm once, then the largest x̄ + √(2 ln n / s), with n the plays so far.

    With arms that earn 1, 0 and 0, in round 4 n = 3 and all s = 1: 1 + 1.482 against 1.482, so the
    first. Round 5: 1 + √(2 ln 4 / 2) = 2.177 against 1.665, the first. Round 6: 1 + √(2 ln 5 / 3) =
    2.036 against 1.794, the first.
    """

    assumptions = "Rewards in [0, 1], independent, with a fixed mean for each arm."
    regret = "8 Σ ln T / Δ + (1 + π²/3) Σ Δ over the suboptimal arms"
    reference = "Auer, Cesa-Bianchi, Fischer 2002, Finite-time analysis of the multiarmed bandit"
    index = staticmethod(index)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()
