"""What both forms of MOSS++ share: MOSS over real arms and over mixtures of earlier iterations."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.policies.base import Floats, State
from nextquery.policies.many_armed.classical import moss
from nextquery.policies.many_armed.index_policy import UNPLAYED
from nextquery.policies.many_armed.order import Ids
from nextquery.policies.many_armed.sequential import Sequential, Wanted, uniformly
from nextquery.policies.many_armed.statistics import ArmStatistics
from nextquery.selection.selector import Candidates


def scores_of(plays: Floats, means: Floats, horizon: float, arms: int) -> Floats:
    """Return MOSS's index of each arm; `UNPLAYED` if it was not played.

    >>> scores_of(np.array([0.0, 2.0]), np.array([0.0, 0.5]), 100.0, 5).round(3).tolist()
    [10000.0, 1.573]
    """
    scores: Floats = moss.index(means, None, np.maximum(plays, 1.0), 0, arms, (horizon,))
    return np.where(plays > 0, scores, UNPLAYED)


class VirtualArms(Sequential):
    """Iterations i = 1 … p with p = ⌈log₂ T^β⌉, each twice as long, on half as many real arms.

    When iteration i ends, at t = 2^p (2^(i+1) − 2), the mixture of its arms in proportion to their
    plays becomes virtual arm i. Playing it means to draw one of its arms and play that. MOSS of the
    next iterations has it among its arms. The last iteration goes on if T is exceeded.
    """

    assumptions = "Many arms with rewards in [0, 1], a share of them best; T known, the share not."
    order_matters = "iterations end at fixed rounds, and the next one starts from what was played"

    def __init__(self, horizon: int = 1000, beta: float = 0.5, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=2)
        self.beta = number(beta, "beta", low=0.5, high=1)
        self.last = max(1, math.ceil(math.log2(self.horizon**self.beta)))  # p
        self.iteration = 1
        self._real = ArmStatistics()
        self._virtual = np.zeros((2, self.last))  # plays and sums of rewards
        self._mixtures: list[tuple[Ids, Floats]] = []

    @abstractmethod
    def _places(self, arms: Ids) -> Ids:
        """Return the places of the real arms of this iteration."""

    @abstractmethod
    def _rounds_of_index(self) -> float:
        """Return H, the horizon in MOSS's index."""

    @abstractmethod
    def _plays_of_iteration(self) -> tuple[Floats, Floats]:
        """Return the plays of every real and virtual arm in this iteration."""

    @abstractmethod
    def _start_iteration(self) -> None:
        """Prepare the iteration that begins."""

    def size(self) -> int:
        """Return 2^(p+2−i), the number of real arms of this iteration."""
        return int(2 ** (self.last + 2 - self.iteration))

    def _wanted(self, candidates: Candidates) -> Wanted:
        arms, earlier, H = candidates.arms, self.iteration - 1, self._rounds_of_index()
        places = self._places(arms)
        plays, means = self._real.plays_and_means(arms[places])
        K = len(places) + earlier
        real = scores_of(plays, means, H, K)
        for which in self._best_virtual(H, K, float(real.max(initial=-np.inf))):
            ids, weights = self._mixtures[which]
            found, there = self._draws.find(arms, ids)
            if len(found):  # some of its arms are candidates
                return Wanted(found, weights[there] / weights[there].sum(), which + 1)
        return uniformly(places, real)

    def _best_virtual(self, H: float, K: int, at_least: float) -> list[int]:
        """Return the virtual arm to play, or nothing if a real arm has a larger index."""
        plays, sums = self._virtual[:, : self.iteration - 1]
        if not len(plays):
            return []
        scores = scores_of(plays, sums / np.maximum(plays, 1.0), H, K)
        if scores.max() < at_least:
            return []
        return [self._draws.one_of(np.flatnonzero(scores == scores.max()), self.rounds)]

    def _learn(self, arm: int, code: int, reward: float) -> None:
        if code:
            self._virtual[:, code - 1] += (1.0, reward)
        else:
            self._real.replace(arm, None, reward)
        end = 2**self.last * (2 ** (self.iteration + 1) - 2)
        if self.rounds + 1 == end and self.iteration < self.last:
            self._mixtures.append(self._mixture())
            self.iteration += 1
            self._start_iteration()

    def _mixture(self) -> tuple[Ids, Floats]:
        real, virtual = self._plays_of_iteration()
        share = np.zeros(max([len(real), *(int(ids.max()) + 1 for ids, _ in self._mixtures)]))
        share[: len(real)] += real
        for plays, (ids, weights) in zip(virtual.tolist(), self._mixtures, strict=False):
            share[ids] += plays * weights
        ids = np.flatnonzero(share)
        return ids, share[ids] / share[ids].sum()

    def _state(self) -> State:
        ids = [ids for ids, _ in self._mixtures]
        return {
            **super()._state(),
            **self._real.state("real_"),
            "virtual": self._virtual,
            "mixture_sizes": np.array([len(one) for one in ids], np.int64),
            "mixture_arms": np.concatenate([np.empty(0, np.int64), *ids]),
            "mixture_shares": np.concatenate([np.empty(0), *(w for _, w in self._mixtures)]),
        }

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._real.restore(state, "real_")
        self._virtual = np.array(state["virtual"])
        cuts = np.cumsum(state["mixture_sizes"])[:-1]
        ids, shares = (np.split(state[f"mixture_{name}"], cuts) for name in ("arms", "shares"))
        count = len(state["mixture_sizes"])
        self._mixtures = list(zip(ids, shares, strict=True))[:count]
        self.iteration = count + 1
