"""UCB1: the mean, and a bonus for arms that were played little (Auer et al. 2002)."""

from typing import Any

import numpy as np

from nextquery.policies.many_armed.index_policy import IndexPolicy


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return x̄ + √(2 ln t / s).

    >>> round(float(index(0.5, 0.25, 2.0, 8, 3, ())), 4)  # 0.5 + √ln 8
    1.942
    """
    return mean + np.sqrt(2.0 * np.log(t) / plays)


class UCB1(IndexPolicy):
    """Play every arm once, then the largest x̄ + √(2 ln t / s).

    With arms that earn 1, 0 and 0, rounds 4 to 6 are: t = 4, all s = 1, bonus 1.665: the first. Its
    index is then 1 + √(2 ln 5 / 2) = 2.269 against 1.794: the first again. t = 6: s = 3, 1 +
    √(2 ln 6 / 3) = 2.093 against 1.893: again.
    """

    assumptions = "Rewards in [0, 1], independent, with a fixed mean for each arm."
    regret = "8 Σ ln T / Δ + (1 + π²/3) Σ Δ over the suboptimal arms"
    reference = "Auer, Cesa-Bianchi, Fischer 2002, Finite-time analysis of the multiarmed bandit"
    index = staticmethod(index)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()
