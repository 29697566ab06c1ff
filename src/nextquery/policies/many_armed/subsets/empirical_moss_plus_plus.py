"""Empirical MOSS++: MOSS++ that keeps its statistics and the better half of its arms."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.policies.base import Floats, State
from nextquery.policies.many_armed.order import Ids, ranks
from nextquery.policies.many_armed.subsets.virtual_arms import VirtualArms


class EmpiricalMossPlusPlus(VirtualArms):
    """As MOSS++, but the next iteration has the arms with the best means so far, half as many.

    Statistics are kept, and the horizon of MOSS is the end of the iteration, 2^p (2^(i+1) − 2), at
    most T. Equal means are in random order.

    Parameters
    ----------
    horizon : T, at least 2.
    beta : β in [0.5, 1]: a larger one is better with few best arms, and worse with many.
    """

    regret = "none is proved"
    reference = "Zhu, Nowak 2020, On regret with multiple best arms"

    def __init__(self, horizon: int = 1000, beta: float = 0.5, *, seed: int = 0) -> None:
        super().__init__(horizon, beta, seed=seed)
        self._kept = np.empty(0, np.int64)
        self._real_before, self._virtual_before = np.empty(0), np.zeros(self.last)

    def _places(self, arms: Ids) -> Ids:
        if self.iteration > 1:
            found, _ = self._draws.find(arms, self._kept)
            if len(found):
                return found
        return self._draws.places(arms, min(self.size(), len(arms)))

    def _rounds_of_index(self) -> float:
        return float(min(2**self.last * (2 ** (self.iteration + 1) - 2), self.horizon))

    def _plays_of_iteration(self) -> tuple[Floats, Floats]:
        plays = self._real.cells[0].copy()
        plays[: len(self._real_before)] -= self._real_before
        return plays, self._virtual[0] - self._virtual_before

    def _start_iteration(self) -> None:
        self._real_before = self._real.cells[0].copy()
        self._virtual_before = self._virtual[0].copy()
        arms = self._real.played
        means = self._real.plays_and_means(arms)[1]
        self._kept = arms[np.lexsort((ranks(arms, self.seed), -means))][: self.size()]

    def _state(self) -> State:
        before = {"real_before": self._real_before, "virtual_before": self._virtual_before}
        return {**super()._state(), "kept": self._kept, **before}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._kept = np.array(state["kept"])
        self._real_before = np.array(state["real_before"])
        self._virtual_before = np.array(state["virtual_before"])
        width = max(len(self._real_before), self._real.cells.shape[1])
        self._real._extend(width)
