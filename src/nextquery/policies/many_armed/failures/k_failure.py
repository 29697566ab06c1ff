"""k-failure: stay with an arm until its k-th failure (Berry et al. 1997)."""

from typing import Any

import numpy as np

from nextquery.checks import whole_number
from nextquery.policies.many_armed.failures.trials import (
    FAILURES,
    NUMBER,
    SUCCESSES,
    Counts,
    Trials,
)


def step(counts: Any, success: int, targets: Any) -> None:
    """Leave an arm at its k-th failure; k is the only target.

    Rewards 1 0 1 0 | 0 0 | 1 with k = 2: trial 0 ends in round 4, trial 1 in round 6.

    >>> from nextquery.policies.many_armed.failures.trials import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 0, 1, 0, 0, 0, 1):
    ...     trials.append(int(counts[NUMBER]))
    ...     step(counts, reward, [2])
    >>> trials
    [0, 0, 0, 0, 1, 1, 2]
    """
    if success:
        counts[SUCCESSES] += 1
        return
    counts[FAILURES] += 1
    if counts[FAILURES] >= targets[0]:
        counts[NUMBER] += 1
        counts[SUCCESSES] = 0
        counts[FAILURES] = 0


class KFailure(Trials):
    """Stay with an arm until its k-th failure, then take a new one; never return.

    Parameters
    ----------
    k : at least 1.
    """

    assumptions = "Infinitely many arms with rewards of 0 and 1; the best arms never fail (μ* = 1)."
    regret = "Θ(T / log T) for k = 1 and uniform means (from memory, not confirmed)"
    reference = "Berry, Chen, Zame, Heath, Shepp 1997, Bandit problems with infinitely many arms"
    step = staticmethod(step)

    def __init__(self, k: int = 1, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.k = whole_number(k, "k", at_least=1)

    @property
    def targets(self) -> Counts:
        """k."""
        return np.array([self.k])
