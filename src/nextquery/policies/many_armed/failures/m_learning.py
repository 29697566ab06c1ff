"""m-learning: 1-failure for m rounds, then the best arm so far (Berry et al. 1997)."""

import math
from typing import Any

import numpy as np

from nextquery.checks import whole_number
from nextquery.policies.many_armed.failures.trials import (
    BEST,
    BEST_SUCCESSES,
    NUMBER,
    ROUND,
    SETTLED,
    SUCCESSES,
    Counts,
    Trials,
)


def step(counts: Any, success: int, targets: Any) -> None:
    """Settle after m rounds, the only target, for the arm with the highest share of successes.

    An arm that has not failed yet has a share of 1. m = 5, rewards 1 1 0 | 0 | 0: the first arm.

    >>> from nextquery.policies.many_armed.failures.trials import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 1, 0, 0, 0, 1, 0):
    ...     trials.append(int(counts[NUMBER]))
    ...     step(counts, reward, [5])
    >>> trials
    [0, 0, 0, 1, 2, 0, 0]
    """
    if counts[SETTLED]:
        return
    counts[ROUND] += 1
    if success:
        counts[SUCCESSES] += 1
    else:
        if counts[SUCCESSES] > counts[BEST_SUCCESSES]:
            counts[BEST] = counts[NUMBER]
            counts[BEST_SUCCESSES] = counts[SUCCESSES]
        counts[NUMBER] += 1
        counts[SUCCESSES] = 0
    if counts[ROUND] >= targets[0]:
        counts[SETTLED] = 1
        if counts[SUCCESSES] == 0:
            counts[NUMBER] = counts[BEST]


class MLearning(Trials):
    """Leave arms at their first failure for m = ⌈√T ln T⌉ rounds; then the best arm stays.

    Parameters
    ----------
    horizon : T, at least 1.
    """

    assumptions = "Infinitely many arms with rewards of 0 and 1, uniform means; T known."
    regret = "not confirmed from a source here"
    reference = "Berry, Chen, Zame, Heath, Shepp 1997, Bandit problems with infinitely many arms"
    step = staticmethod(step)

    def __init__(self, horizon: int = 1000, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)

    @property
    def targets(self) -> Counts:
        """m."""
        return np.array([max(1, math.ceil(math.sqrt(self.horizon) * math.log(self.horizon)))])
