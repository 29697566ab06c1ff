"""MOSS++: fewer and fewer arms, ever longer, and what was found kept as mixtures (2020)."""

import numpy as np

from nextquery.policies.base import Floats
from nextquery.policies.many_armed.order import Ids
from nextquery.policies.many_armed.statistics import ArmStatistics
from nextquery.policies.many_armed.subsets.virtual_arms import VirtualArms


class MossPlusPlus(VirtualArms):
    """In iteration i, MOSS over min(2^(p+2−i), n) arms drawn anew and the i − 1 virtual arms.

    Statistics start anew in each iteration, and the horizon of MOSS is its length, 2^(p+i), at most
    T. With T = 50,000 and β = 0.5, p is 8: 512 arms for 512 rounds, then 256 arms and a mixture for
    1,024 rounds, and so on.

    Parameters
    ----------
    horizon : T, at least 2.
    beta : β in [0.5, 1]: a larger one is better with few best arms, and worse with many.
    """

    regret = "Õ(T^max(β, 1 + α − β)) if T^α arms have one best arm (from memory, not confirmed)"
    reference = "Zhu, Nowak 2020, On regret with multiple best arms"

    def _places(self, arms: Ids) -> Ids:
        return self._draws.places(arms, min(self.size(), len(arms)), salt=self.iteration)

    def _rounds_of_index(self) -> float:
        return float(min(2 ** (self.last + self.iteration), self.horizon))

    def _plays_of_iteration(self) -> tuple[Floats, Floats]:
        return self._real.cells[0], self._virtual[0]

    def _start_iteration(self) -> None:
        self._real, self._virtual = ArmStatistics(), np.zeros_like(self._virtual)
