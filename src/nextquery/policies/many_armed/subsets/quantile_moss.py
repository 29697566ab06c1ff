"""QRM2: MOSS in longer and longer epochs on more and more arms; the quantile rival."""

from typing import Any

import numpy as np

from nextquery.checks import number
from nextquery.policies.many_armed.index_policy import IndexPolicy
from nextquery.policies.many_armed.subsets.ucb_f import whole


def index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return MOSS's index with the end of the current epoch, 2^(l+1) − 2, for the horizon.

    >>> round(float(index(0.5, 0.25, 2.0, 8, 2, ())), 4)  # round 8 is in epoch 3, which ends at 14
    1.2914
    """
    end = 2.0 ** (np.floor(np.log2(t + 1.0)) + 1.0) - 2.0
    return mean + np.sqrt(np.maximum(np.log(end / (arms * plays)), 0.0) / plays)


class QuantileMoss(IndexPolicy):
    """Epoch l = 1, 2, … has 2^l rounds of MOSS on the first ⌈2^(αl)⌉ arms drawn, at least two.

    Statistics are kept from epoch to epoch. Rounds 1–2, 3–6 and 7–14 play 2, 2 and 3 arms.

    Parameters
    ----------
    growth : α in (0, 1]; 0.347 as in the code of Zhu and Nowak.

    >>> [QuantileMoss().arms_in_play(99, t) for t in (1, 2, 3, 6, 7, 14, 15)]
    [2, 2, 2, 2, 3, 3, 3]
    """

    assumptions = "Many arms with rewards in [0, 1]; T unknown. Regret is against a quantile."
    regret = "sublinear against a quantile of the arms; exponents not confirmed from a source here"
    reference = (
        "Chaudhuri, Kalyanakrishnan 2018, Quantile-regret minimisation; as run by Zhu, Nowak 2020"
    )
    index = staticmethod(index)

    def __init__(self, growth: float = 0.347, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.growth = number(growth, "growth", low=0, high=1, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return the number of arms in the epoch of round t."""
        epoch = (t + 1).bit_length() - 1
        return max(2, whole(2.0 ** (self.growth * epoch)))
