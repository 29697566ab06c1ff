"""CKL-UCB: KL-UCB where the plays of near arms count too (Magureanu et al. 2014)."""

import math

import numpy as np
from numpy.typing import NDArray

from nextquery.policies.base import Floats
from nextquery.policies.many_armed.structured.lipschitz import LipschitzPolicy, divergence

EDGE = 0.001
"""Means are kept within [EDGE, 1 − EDGE]."""
EXACT = 0.0001
"""How exact the index is."""


def threshold(t: int, arms: int) -> float:
    """Return f(t) = ln t + (3 K + 1) ln ln t; 0 for t < 3.

    >>> round(threshold(100, 2), 3), threshold(2, 2)
    (15.295, 0.0)
    """
    return 0.0 if t < 3 else math.log(t) + (3 * arms + 1) * math.log(math.log(t))


class CKLUCB(LipschitzPolicy):
    """Play the least played arm that could still be as good as the leader's index.

    S_k(q) = Σ_i s_i I(x̄_i, q − L d(k, i)) is the evidence against a mean q of arm k. The index of
    the leader (the best mean) is the largest q with S(q) ≤ f(t). Arms with S_k(q) < f(t) at this q
    are eligible, else the leader is played. An arm with s < ln ln(t + 3) comes first. I counts only
    where the mean is below what it is compared with, as in OSLB's linear programme.

    Parameters
    ----------
    lipschitz : L > 0: means of two arms differ by at most L times their distance, angle/π.
    """

    assumptions = "Rewards of 0 and 1, finitely many arms, Lipschitz means with a known constant."
    regret = "asymptotically C ln T, with C not above that of KL-UCB (from memory, not confirmed)"
    reference = "Magureanu, Combes, Proutière 2014, Lipschitz bandits"

    def _eligible(self, plays: Floats, means: Floats, t: int, apart: Floats) -> NDArray[np.bool_]:
        few = plays < math.log(math.log(t + 3))
        if few.any():
            return np.asarray(few)
        f = threshold(t, len(plays))
        leader = int(means.argmax())
        q = self._index(plays, means, leader, apart, f)
        able = self._evidence(plays, means, q, apart) < f
        if not able.any():
            return np.asarray(np.arange(len(plays)) == leader)
        return np.asarray(able & (plays == plays[able].min()))

    def _evidence(self, plays: Floats, means: Floats, q: float, apart: Floats) -> Floats:
        """Return S_k(q) for rows of distances."""
        assumed = np.maximum(q - self.lipschitz * apart, means)
        against: Floats = divergence(means, assumed, EDGE) @ plays
        return against

    def _index(self, plays: Floats, means: Floats, k: int, apart: Floats, f: float) -> float:
        """Return the index of arm k, by bisection between its mean and 1."""
        low = float(means[k])
        step, q = (1.0 - low) / 2, (1.0 + low) / 2
        while step > EXACT:
            step /= 2
            q += step if float(self._evidence(plays, means, q, apart[k])) < f else -step
        return q
