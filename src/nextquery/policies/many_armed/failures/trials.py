"""What the policies of this room share: trials of one arm after another, by a compiled rule."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.policies.base import State
from nextquery.policies.many_armed.order import Ids, ranks
from nextquery.policies.many_armed.sequential import Sequential, Wanted
from nextquery.selection.selector import Candidates

NUMBER, SUCCESSES, FAILURES, SETTLED, BEST, BEST_SUCCESSES, ROUND = range(7)
"""The counts of a rule: the number of the current trial, its successes and failures, whether its
arm stays for ever, the best trial so far with its successes, and the rounds played."""

Counts = NDArray[np.int64]


def new_counts() -> Counts:
    """Return the counts before the first round."""
    counts = np.zeros(7, np.int64)
    counts[BEST_SUCCESSES] = -1
    return counts


class Trials(Sequential):
    """A rule looks at the rewards of the current arm: stay, begin a new one, or settle for one.

    `step(counts, success, targets)` is the rule; NumPy and Numba can both run it. New arms come in
    random order. If all candidates were tried, the one whose trial began first is tried again, and
    counts as a new arm. If the arm of the trial is no candidate now, a new trial begins; if it was
    settled for, any candidate is played and nothing is learnt.
    """

    step: ClassVar[Callable[..., None]]
    order_matters = "runs of successes and the first failures of an arm decide when it is left"

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._counts = new_counts()
        self._trials: list[int] = []  # the arm of each trial
        self._latest = np.zeros(1, np.int64)  # the last trial of each arm, from 1

    @property
    @abstractmethod
    def targets(self) -> Counts:
        """The constants of the rule."""

    def _wanted(self, candidates: Candidates) -> Wanted:
        arms, number = candidates.arms, int(self._counts[NUMBER])
        code = number
        if number < len(self._trials):
            there = np.flatnonzero(arms == self._trials[number])
            if len(there):
                return Wanted(there, np.ones(1), code)
            code = -1 if self._counts[SETTLED] else number
        latest = self._latest[np.minimum(arms, len(self._latest) - 1)]
        longest_ago = np.flatnonzero(latest == latest.min())
        if latest[longest_ago[0]] == 0:
            longest_ago = longest_ago[[ranks(arms[longest_ago], self.seed).argmin()]]
        return Wanted(longest_ago[:1], np.ones(1), code)

    def _learn(self, arm: int, code: int, reward: float) -> None:
        if reward not in (0.0, 1.0):
            raise InvalidInput(
                f"{type(self).__name__} counts successes and failures, so a reward must be 0 or 1; "
                f"received {reward!r}. Use another policy for other rewards."
            )
        counts = self._counts
        if counts[NUMBER] < len(self._trials) and self._trials[counts[NUMBER]] != arm:
            counts[NUMBER] = len(self._trials)
            counts[SUCCESSES] = counts[FAILURES] = 0
        if counts[NUMBER] == len(self._trials):
            self._begin(arm)
        type(self).step(counts, int(reward), self.targets)

    def _begin(self, arm: int) -> None:
        if arm >= len(self._latest) - 1:
            longer = np.zeros(max(arm + 2, 2 * len(self._latest)), np.int64)
            longer[: len(self._latest)] = self._latest
            self._latest = longer
        self._trials.append(arm)
        self._latest[arm] = len(self._trials)

    def _state(self) -> State:
        trials: Ids = np.array(self._trials, np.int64)
        return {**super()._state(), "counts": self._counts, "trials": trials}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._counts = np.array(state["counts"])
        for arm in state["trials"].tolist():
            self._begin(arm)
