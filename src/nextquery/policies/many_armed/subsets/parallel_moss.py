"""Parallel: several MOSS on more and more arms, and the one that lost least goes on."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.policies.base import State
from nextquery.policies.many_armed.sequential import Sequential, Wanted, uniformly
from nextquery.policies.many_armed.statistics import ArmStatistics
from nextquery.policies.many_armed.subsets.ucb_f import whole
from nextquery.policies.many_armed.subsets.virtual_arms import scores_of
from nextquery.selection.selector import Candidates


class ParallelMoss(Sequential):
    """p = ⌈ln T⌉ subroutines; number i is MOSS on ⌈T^(i/p) ln √T⌉ arms of its own.

    At the start of each block of ⌈√T⌉ rounds, the one with the least Σ (μ* − X) so far goes on.
    The size of the subroutines is that of the authors' code; the text has twice as many arms.

    Parameters
    ----------
    horizon : T, at least 2.
    best : μ*, the mean of the best arm, which this algorithm must know; in [0, 1].

    >>> ParallelMoss(50_000).sizes[:3], ParallelMoss(50_000).block
    ([15, 39, 104], 224)
    """

    assumptions = "Many arms with rewards in [0, 1]; T and the mean of the best arm are known."
    regret = "Õ(T^((1+α)/2)) if T^α arms have one best arm (from memory, not confirmed)"
    reference = "Zhu, Nowak 2020, On regret with multiple best arms"
    order_matters = "at the start of each block of rounds, the losses so far decide who goes on"

    def __init__(self, horizon: int = 1000, best: float = 1.0, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=2)
        self.best = number(best, "best", low=0, high=1)
        T = self.horizon
        p, several = math.ceil(math.log(T)), math.log(math.sqrt(T))
        self.block = math.ceil(math.sqrt(T))
        self.sizes = [min(whole(T ** (i / p) * several), T) for i in range(1, p + 1)]
        self._seen = [ArmStatistics() for _ in self.sizes]
        self._losses = np.zeros(p)
        self._current = 0

    def _wanted(self, candidates: Candidates) -> Wanted:
        current, arms = self._current, candidates.arms
        if self.rounds % self.block == 0:
            least = np.flatnonzero(self._losses == self._losses.min())
            current = self._draws.one_of(least, self.rounds)
        places = self._draws.places(arms, min(self.sizes[current], len(arms)), salt=current)
        plays, means = self._seen[current].plays_and_means(arms[places])
        scores = scores_of(plays, means, float(self.horizon), len(places))
        return uniformly(places, scores, current)

    def _learn(self, arm: int, code: int, reward: float) -> None:
        self._current = code
        self._seen[code].replace(arm, None, reward)
        self._losses[code] += self.best - reward

    def _state(self) -> State:
        state = {**super()._state(), "losses": self._losses, "current": np.array(self._current)}
        for i, seen in enumerate(self._seen):
            state |= seen.state(f"{i}_")
        return state

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._losses, self._current = np.array(state["losses"]), int(state["current"])
        for i, seen in enumerate(self._seen):
            seen.restore(state, f"{i}_")
