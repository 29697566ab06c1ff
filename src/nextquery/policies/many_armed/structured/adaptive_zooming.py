"""Zooming: activate an arm only where no active arm is near enough (Kleinberg et al. 2008)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.policies.base import Floats, State
from nextquery.policies.many_armed.sequential import Sequential, Wanted, uniformly
from nextquery.policies.many_armed.statistics import ArmStatistics
from nextquery.policies.many_armed.structured.metric import distances
from nextquery.selection.selector import Candidates


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

    def _wanted(self, candidates: Candidates) -> Wanted:
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
