"""Non-recalling m-run: as m-run, but it never returns to an arm (Berry et al. 1997)."""

import math
from typing import Any

import numpy as np

from nextquery.checks import whole_number
from nextquery.policies.many_armed.failures.trials import (
    NUMBER,
    SETTLED,
    SUCCESSES,
    Counts,
    Trials,
)


def step(counts: Any, success: int, targets: Any) -> None:
    """Settle for the first arm with a run of m, the only target.

    >>> from nextquery.policies.many_armed.failures.trials import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 0, 0, 1, 1, 1, 0, 0):  # m = 3: trial 2 has the run
    ...     trials.append(int(counts[NUMBER]))
    ...     step(counts, reward, [3])
    >>> trials
    [0, 0, 1, 2, 2, 2, 2, 2]
    """
    if counts[SETTLED]:
        return
    if success:
        counts[SUCCESSES] += 1
        if counts[SUCCESSES] >= targets[0]:
            counts[SETTLED] = 1
        return
    counts[NUMBER] += 1
    counts[SUCCESSES] = 0


class NonRecallingMRun(Trials):
    """Leave arms at their first failure until one has a run of m = ⌈√T⌉ successes: it stays.

    Parameters
    ----------
    horizon : T, at least 1.
    """

    assumptions = "Infinitely many arms with rewards of 0 and 1, uniform means; T known."
    regret = "at most 2 √T failures asymptotically; no strategy has fewer than √(2T)"
    reference = "Berry, Chen, Zame, Heath, Shepp 1997, Bandit problems with infinitely many arms"
    step = staticmethod(step)

    def __init__(self, horizon: int = 1000, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)

    @property
    def targets(self) -> Counts:
        """m."""
        return np.array([math.ceil(math.sqrt(self.horizon))])
