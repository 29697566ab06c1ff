"""Bandits that know the distances between arms: zooming, OSLB and CKL-UCB.

The distance is the angle between the vectors of two arms, divided by π. OSLB and CKL-UCB are for
rewards of 0 and 1 whose means differ by at most L times the distance.

- *Zooming*: activate an arm only where no active arm is near enough (Kleinberg et al. 2008).
- *OSLB*: play as often as a linear programme requires (Magureanu et al. 2014).
- *CKL-UCB*: KL-UCB where the plays of near arms count too (Magureanu et al. 2014).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.checks import installed, number, whole_number
from nextquery.policies.policy import Floats, State
from nextquery.research.many_armed.failures import NextPlays, Sequential, uniformly
from nextquery.research.many_armed.index import ArmStatistics, IndexPolicy
from nextquery.selection.selector import Candidates


def distances(some: ArrayLike, others: ArrayLike) -> Floats:
    """Return angle/π for each pair of rows, in [0, 1]. It is a metric; 1 − cosine is none.

    1 − cosine breaks the triangle inequality: 0 to 90° costs 1, but by way of 45° only 0.59.

    >>> rows = [[1, 0], [1, 1], [0, 1], [-1, 0]]
    >>> distances(rows[:1], rows).round(3).tolist()
    [[0.0, 0.25, 0.5, 1.0]]
    """
    one, other = _unit(some), _unit(others)
    chords = np.clip(2.0 - 2.0 * (one @ other.T), 0.0, 4.0)
    return np.asarray(2.0 / np.pi * np.arcsin(np.sqrt(chords) / 2.0), np.float64)


def _unit(rows: ArrayLike) -> Floats:
    """Return rows of length 1 in float64; the stored ones are rounded to float32."""
    values = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(lengths > 0, lengths, 1.0), np.float64)


class AdaptiveZooming(Sequential):
    """Play the active arm with the largest x̄ + 2 r, where r shrinks as the arm is played.

    An active arm covers what is within r of it. If a candidate is not covered, one such is
    activated, at random. Without a horizon, phase i = 1, 2, … has 2^i rounds and begins anew, and
    r = √(8 i / (2 + s)). With a horizon there is one phase and r = √(2 ln T / (s + 1)). The mean of
    an arm that was not played is 0. The distance is angle/π, so r covers everything until s is
    large: an arm at a distance of 0.5 is not covered after 2 ln T / 0.25 plays.

    Parameters
    ----------
    horizon : T, at least 2; None for phases.
    lipschitz : L > 0: means of two arms differ by at most L times their distance.
    """

    assumptions = "Rewards in [0, 1], with means that differ by at most the distance of the arms."
    regret = "Õ(T^((d+1)/(d+2))) with d the zooming dimension"
    reference = "Kleinberg, Slivkins, Upfal 2008, Multi-armed bandits in metric spaces"
    order_matters = "which arms are active depends on what was played, and phases begin anew"

    def __init__(
        self, horizon: int | None = None, lipschitz: float = 1.0, *, seed: int = 0
    ) -> None:
        super().__init__(seed=seed)
        known = horizon is not None
        self.horizon = whole_number(horizon, "horizon", at_least=2) if known else None
        self.lipschitz = number(lipschitz, "lipschitz", low=0, above_low=True)
        self.phase = 1
        self._ends = 2  # the round with which the phase ends
        self._seen = ArmStatistics()
        self._active = np.empty(0, np.int64)

    def radii(self, plays: Floats) -> Floats:
        """Return the radius of arms played this often, before division by L.

        >>> AdaptiveZooming().radii(np.array([0.0, 6.0])).tolist()
        [2.0, 1.0]
        """
        if self.horizon is None:
            return np.sqrt(8.0 * self.phase / (2.0 + plays))
        return np.sqrt(2.0 * math.log(self.horizon) / (plays + 1.0))

    def _next_plays(self, candidates: Candidates) -> NextPlays:
        active, _ = self._draws.find(candidates.arms, self._active)
        plays, means = self._seen.plays_and_means(candidates.arms[active])
        radii = self.radii(plays)
        apart = distances(candidates.vectors, candidates.vectors[active])
        uncovered = np.flatnonzero((apart > radii / self.lipschitz).all(axis=1))
        if not len(uncovered):
            return uniformly(active, means + 2.0 * radii)
        new = self._draws.one_of(uncovered, self.rounds)
        scores = np.append(means + 2.0 * radii, 2.0 * self.radii(np.zeros(1)))
        return uniformly(np.append(active, new), scores, 1 + int(candidates.arms[new]))

    def _learn(self, arm: int, code: int, reward: float) -> None:
        if code:
            self._active = np.append(self._active, code - 1)
        self._seen.replace(arm, None, reward)
        if self.horizon is None and self.rounds + 1 == self._ends:
            self.phase += 1
            self._ends += 2**self.phase
            self._seen, self._active = ArmStatistics(), np.empty(0, np.int64)

    def _state(self) -> State:
        phase = {"phase": np.array(self.phase), "active": self._active}
        return {**super()._state(), **self._seen.state(), **phase}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._seen.restore(state)
        self.phase, self._active = int(state["phase"]), np.array(state["active"])
        self._ends = 2 ** (self.phase + 1) - 2


def divergence(p: Floats, q: Floats, edge: float = 1e-15) -> Floats:
    """Return KL(p, q) of Bernoulli distributions, both kept within [edge, 1 − edge].

    >>> divergence(np.array([0.5, 0.2]), np.array([0.25, 0.2])).round(4).tolist()
    [0.1438, 0.0]
    """
    p, q = np.clip(p, edge, 1.0 - edge), np.clip(q, edge, 1.0 - edge)
    return np.asarray(p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q)))


class LipschitzPolicy(IndexPolicy):
    """Its score is 1 for the arms that it may play and 0 for others; ties are broken at random.

    `_eligible` has plays, means, t and the distances of the arms: angle/π between their vectors.
    """

    def __init__(self, lipschitz: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.lipschitz = number(lipschitz, "lipschitz", low=0, above_low=True)

    @property
    def constants(self) -> tuple[float, ...]:
        """L; there is no index."""
        return (self.lipschitz,)

    @abstractmethod
    def _eligible(self, plays: Floats, means: Floats, t: int, apart: Floats) -> NDArray[np.bool_]:
        """Return which arms may be played; t is the number of plays so far."""

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        if not len(candidates):
            return np.empty(0)
        plays, means = self._seen.plays_and_means(candidates.arms)
        apart = distances(candidates.vectors, candidates.vectors)
        return self._eligible(plays, means, self._seen.updates, apart).astype(np.float64)


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
