"""m-run: leave each arm at its first failure until one has a run of m (Berry et al. 1997)."""

import math
from typing import Any

import numpy as np

from nextquery.checks import whole_number
from nextquery.policies.many_armed.failures.trials import (
    BEST,
    BEST_SUCCESSES,
    NUMBER,
    SETTLED,
    SUCCESSES,
    Counts,
    Trials,
)


def step(counts: Any, success: int, targets: Any) -> None:
    """Settle for an arm with a run of m, or for the best of the first m arms.

    m = 3, rewards 1 1 0 | 0 | 1 0: no run of 3 in three arms; the first one was best. Every arm
    that was left has exactly one failure, so the best one has the most successes.

    >>> from nextquery.policies.many_armed.failures.trials import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 1, 0, 0, 1, 0, 1, 0):
    ...     trials.append(int(counts[NUMBER]))
    ...     step(counts, reward, [3])
    >>> trials
    [0, 0, 0, 1, 2, 2, 0, 0]
    """
    if counts[SETTLED]:
        return
    if success:
        counts[SUCCESSES] += 1
        if counts[SUCCESSES] >= targets[0]:
            counts[SETTLED] = 1
        return
    if counts[SUCCESSES] > counts[BEST_SUCCESSES]:
        counts[BEST] = counts[NUMBER]
        counts[BEST_SUCCESSES] = counts[SUCCESSES]
    counts[SUCCESSES] = 0
    if counts[NUMBER] + 1 >= targets[0]:
        counts[SETTLED] = 1
        counts[NUMBER] = counts[BEST]
    else:
        counts[NUMBER] += 1


class MRun(Trials):
    """Leave arms at their first failure until one has a run of m = ⌈√T⌉ successes: it stays.

    After m arms without such a run, the one with the most successes stays.

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
