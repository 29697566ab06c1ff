"""Two-target: one target for the first failure and one for the m-th (Bonald, Proutière 2013)."""

from typing import Any

import numpy as np

from nextquery.checks import number, whole_number
from nextquery.policies.many_armed.failures.trials import (
    FAILURES,
    NUMBER,
    SETTLED,
    SUCCESSES,
    Counts,
    Trials,
)


def step(counts: Any, success: int, targets: Any) -> None:
    """Leave an arm that misses a target; settle for one that reaches both. Targets: m, l1, l2.

    m = 2, l1 = 1, l2 = 3: the first arm fails at once; the second reaches 1 before its first
    failure but only 2 before its second; the third reaches 1 and 3.

    >>> from nextquery.policies.many_armed.failures.trials import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0):
    ...     trials.append(int(counts[NUMBER]))
    ...     step(counts, reward, [2, 1, 3])
    >>> trials
    [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    """
    if counts[SETTLED]:
        return
    if success:
        counts[SUCCESSES] += 1
        return
    counts[FAILURES] += 1
    missed_first = counts[FAILURES] == 1 and counts[SUCCESSES] < targets[1]
    at_last = counts[FAILURES] == targets[0]
    if missed_first or (at_last and counts[SUCCESSES] < targets[2]):
        counts[NUMBER] += 1
        counts[SUCCESSES] = 0
        counts[FAILURES] = 0
    elif at_last:
        counts[SETTLED] = 1


class TwoTarget(Trials):
    """Keep an arm with l1 successes before its first failure and l2 before its m-th, for ever.

    l1 = ⌊(αT/(β+1))^(1/(β+2))⌋ and l2 = ⌊m (αT/(β+1))^(1/(β+1))⌋. With T = 10,000 and uniform
    means, m = 3: 17 and 212.

    Parameters
    ----------
    horizon : T, at least 1.
    m : at least 1; √(2T) is for a large one.
    scale, beta : α, β > 0: P(μ ≥ 1 − x) is about α x^β; 1 and 1 for uniform means.

    >>> TwoTarget(10_000).targets.tolist()
    [3, 17, 212]
    """

    assumptions = "Infinitely many arms with rewards of 0 and 1, P(μ ≥ 1 − x) ~ α x^β; T known."
    regret = "√(2T) asymptotically, for uniform means and a large m: no strategy has less"
    reference = "Bonald, Proutière 2013, Two-target algorithms for infinite-armed bandits"
    step = staticmethod(step)

    def __init__(
        self,
        horizon: int = 1000,
        m: int = 3,
        scale: float = 1.0,
        beta: float = 1.0,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)
        self.m = whole_number(m, "m", at_least=1)
        self.scale = number(scale, "scale", low=0, above_low=True)
        self.beta = number(beta, "beta", low=0, above_low=True)

    @property
    def targets(self) -> Counts:
        """m, l1 and l2."""
        size = self.scale * self.horizon / (self.beta + 1)
        first, last = size ** (1 / (self.beta + 2)), self.m * size ** (1 / (self.beta + 1))
        return np.array([self.m, int(first + 1e-9), int(last + 1e-9)])
