"""OSLB: play as often as a linear programme says that it takes (Magureanu et al. 2014)."""

import math

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import installed, number
from nextquery.policies.base import Floats
from nextquery.policies.many_armed.structured.lipschitz import LipschitzPolicy, divergence


def needed_plays(means: Floats, apart: Floats, lipschitz: float) -> Floats:
    """Return c: arm k must be played c_k ln T times to be sure which arm is best; ∞ for the best.

    Minimise Σ c_k (θ* − θ_k) such that Σ_i c_i I(θ_i, max(θ_i, θ* − L d(k, i))) ≥ 1 for each
    suboptimal k, c ≥ 0. Solved by SciPy's HiGHS, with K² coefficients.

    >>> c = needed_plays(np.array([0.9, 0.5, 0.4]), np.ones((3, 3)) - np.eye(3), 1.0)
    >>> bool(np.isclose(c[1], 1 / (0.5 * np.log(5 / 9) + 0.5 * np.log(5)))) # nothing is shared
    True
    """
    installed("ingest", "scipy")
    from scipy.optimize import linprog

    best = means.max()
    below = np.flatnonzero(means < best)
    c = np.full(len(means), np.inf)
    if len(below):
        assumed = np.maximum(means[below], best - lipschitz * apart[np.ix_(below, below)])
        evidence = divergence(np.broadcast_to(means[below], assumed.shape), assumed)
        # Rows may be tiny when means are close: in units of the largest, HiGHS is exact.
        scale = evidence.max(axis=1, keepdims=True)
        found = linprog(
            best - means[below], A_ub=-evidence / scale, b_ub=-1.0 / scale[:, 0], method="highs"
        )
        c[below] = found.x if found.success else np.inf
    return c


class OSLB(LipschitzPolicy):
    """Play arms up to c_k ln t times, where c solves the linear programme at the means so far.

    An arm with s ≤ ln t / ln ln t is played first; then, if s_k ≥ (1 + γ) min(c_k, ln t) ln t for
    all k, the best mean; else the arm that lacks most. (This is the form of its successors DEL and
    OSSB, which could be confirmed from code; OSLB's own rule of exploration could not.) Each choice
    solves the programme: with hundreds of arms it takes longer than a click.

    Parameters
    ----------
    lipschitz : L > 0: means of two arms differ by at most L times their distance, angle/π.
    gamma : γ ≥ 0: how much more than needed is played.
    """

    assumptions = "Rewards of 0 and 1, finitely many arms, Lipschitz means with a known constant."
    regret = "asymptotically C ln T with the C of the lower bound, as γ → 0"
    reference = "Magureanu, Combes, Proutière 2014, Lipschitz bandits (programme); DEL form of OSSB"

    def __init__(self, lipschitz: float = 1.0, gamma: float = 0.0, *, seed: int = 0) -> None:
        super().__init__(lipschitz, seed=seed)
        self.gamma = number(gamma, "gamma", low=0)

    def _eligible(self, plays: Floats, means: Floats, t: int, apart: Floats) -> NDArray[np.bool_]:
        ln = math.log(max(t, 2))
        few = plays < 1 if t < 3 else (plays < 1) | (plays <= ln / math.log(ln))
        if (plays < 1).any():
            return np.asarray(plays < 1)
        if few.any():
            return np.asarray(few)
        c = needed_plays(means, apart, self.lipschitz)
        lack = (1.0 + self.gamma) * np.minimum(c, ln) * ln - plays
        if (lack <= 0).all():
            return np.asarray(means == means.max())
        return np.asarray(lack == lack.max())
