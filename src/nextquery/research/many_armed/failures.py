"""Bandits that stay with an arm until it has failed.

Each policy plays one trial of an arm after another. A compiled rule on the rewards of the current
arm decides whether to stay, begin a new trial, or settle. The state depends on the order of the
rewards (`Sequential`).

- *k-failure*: stay with an arm until its k-th failure (Berry et al. 1997).
- *m-run*: leave each arm at its first failure until one has a run of m (Berry et al. 1997).
- *Non-recalling m-run*: as m-run, but it never returns to an arm (Berry et al. 1997).
- *m-learning*: 1-failure for m rounds, then the best arm so far (Berry et al. 1997).
- *Two-target*: one target for the first failure and one for the m-th (Bonald, Proutière 2013).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.policies.exploration import drawn
from nextquery.policies.packed import Choice, Context, checked_reward
from nextquery.policies.policy import Floats, Policy, State
from nextquery.research.many_armed.index import Draws, Ids, ranks
from nextquery.selection.selector import Candidates


class NextPlays(NamedTuple):
    """The places of the arms that may be played now, how likely each is, and as what.

    `code` (0 or more) is what the policy must know to learn the reward; −1: it teaches nothing.
    """

    places: Ids
    shares: Floats
    code: int = 0


class Sequential(Policy):
    """Choose, learn the reward, choose again. A subclass defines `_next_plays` and `_learn`.

    A choice has the number of the round in its features, so that a reward that comes late, or
    twice, is recognised and rejected. An arm that exploration drew instead teaches nothing.
    """

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._draws = Draws(self.seed)
        self.rounds = 0

    @abstractmethod
    def _next_plays(self, candidates: Candidates) -> NextPlays:
        """Return what to play; changes nothing."""

    @abstractmethod
    def _learn(self, arm: int, code: int, reward: float) -> None:
        """Learn the reward of an arm that was wanted."""

    def play(
        self, candidates: Candidates, reward: Callable[[int], float], rng: np.random.Generator
    ) -> int:
        """Choose and learn at once, without a `Choice` between; return the place that was played.

        It is what `choose` and `update` do, for games with many thousands of candidates.
        """
        places, shares, code = self._next_plays(candidates)
        place = int(places[drawn(shares, rng)])
        earned = reward(place)
        if code >= 0:
            self._learn(int(candidates.arms[place]), code, earned)
            self.rounds += 1
        return place

    def rank_many(
        self,
        candidates: Sequence[Candidates],
        contexts: Sequence[Context],
        m: Sequence[int],
        rngs: Sequence[np.random.Generator] | None = None,
        *,
        exploration: float = 0.0,
    ) -> list[list[Choice]]:
        """Return slates of one entry; it needs its reward before it can choose again."""
        for length in m:
            if isinstance(length, int) and length > 1:
                raise self._refused(f"it cannot fill a slate of {length}. Ask for one entry")
        return super().rank_many(candidates, contexts, m, rngs, exploration=exploration)

    def as_choice(self, candidates: Candidates, context: Context, arm: int | None) -> None:
        """Return None: it learns from its own choices only, in their order."""
        return

    def correct(
        self, choice: Choice, old: float | None, new: float | None, *, at: float | None = None
    ) -> None:
        """Learn the reward of the last choice; anything else is rejected."""
        before, after = checked_reward(old), checked_reward(new)
        if before == after:
            return
        if before is not None or after is None:
            raise self._refused(
                f"a reward cannot be corrected later; received {old!r} → {new!r}. Pass each reward "
                "once, when it is final"
            )
        made, code = int(choice.features[0]), int(choice.features[1])
        if made != self.rounds:
            raise self._refused(
                f"feedback cannot come late; the choice was made in round {made + 1}, and this is "
                f"round {self.rounds + 1}. Pass each reward before you ask for the next choice"
            )
        if code >= 0:
            self._learn(choice.arm, code, after)
            self.rounds += 1

    def _refused(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"the state of {type(self).__name__} depends on the order of rewards "
            f"({self.order_matters}), so {what}, or use a policy for which order does not matter."
        )

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        """Return the round, the code and the probability of each candidate."""
        rows = np.zeros((len(candidates), 3))
        rows[:, 0], rows[:, 1] = self.rounds, -1
        if len(candidates):
            places, shares, code = self._next_plays(candidates)
            rows[places, 1], rows[places, 2] = code, shares
        return rows

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        return features[:, 2]

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        return features[:, 2]

    def _state(self) -> State:
        return {"rounds": np.array(self.rounds)}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.rounds = int(state["rounds"])


def uniformly(places: Ids, scores: Floats, code: int = 0) -> NextPlays:
    """Return the places with the best score, each as likely."""
    best = places[scores == scores.max()]
    return NextPlays(best, np.full(len(best), 1.0 / len(best)), code)


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

    def _next_plays(self, candidates: Candidates) -> NextPlays:
        arms, number = candidates.arms, int(self._counts[NUMBER])
        code = number
        if number < len(self._trials):
            there = np.flatnonzero(arms == self._trials[number])
            if len(there):
                return NextPlays(there, np.ones(1), code)
            code = -1 if self._counts[SETTLED] else number
        latest = self._latest[np.minimum(arms, len(self._latest) - 1)]
        longest_ago = np.flatnonzero(latest == latest.min())
        if latest[longest_ago[0]] == 0:
            longest_ago = longest_ago[[ranks(arms[longest_ago], self.seed).argmin()]]
        return NextPlays(longest_ago[:1], np.ones(1), code)

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


def k_failure_step(counts: Any, success: int, targets: Any) -> None:
    """Leave an arm at its k-th failure; k is the only target.

    Rewards 1 0 1 0 | 0 0 | 1 with k = 2: trial 0 ends in round 4, trial 1 in round 6.

    >>> from nextquery.research.many_armed.failures import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 0, 1, 0, 0, 0, 1):
    ...     trials.append(int(counts[NUMBER]))
    ...     k_failure_step(counts, reward, [2])
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
    step = staticmethod(k_failure_step)

    def __init__(self, k: int = 1, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.k = whole_number(k, "k", at_least=1)

    @property
    def targets(self) -> Counts:
        """k."""
        return np.array([self.k])


def m_learning_step(counts: Any, success: int, targets: Any) -> None:
    """Settle after m rounds, the only target, for the arm with the highest share of successes.

    An arm that has not failed yet has a share of 1. m = 5, rewards 1 1 0 | 0 | 0: the first arm.

    >>> from nextquery.research.many_armed.failures import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 1, 0, 0, 0, 1, 0):
    ...     trials.append(int(counts[NUMBER]))
    ...     m_learning_step(counts, reward, [5])
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
    step = staticmethod(m_learning_step)

    def __init__(self, horizon: int = 1000, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)

    @property
    def targets(self) -> Counts:
        """m."""
        return np.array([max(1, math.ceil(math.sqrt(self.horizon) * math.log(self.horizon)))])


def m_run_step(counts: Any, success: int, targets: Any) -> None:
    """Settle for an arm with a run of m, or for the best of the first m arms.

    m = 3, rewards 1 1 0 | 0 | 1 0: no run of 3 in three arms; the first one was best. Every arm
    that was left has exactly one failure, so the best one has the most successes.

    >>> from nextquery.research.many_armed.failures import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 1, 0, 0, 1, 0, 1, 0):
    ...     trials.append(int(counts[NUMBER]))
    ...     m_run_step(counts, reward, [3])
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
    step = staticmethod(m_run_step)

    def __init__(self, horizon: int = 1000, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)

    @property
    def targets(self) -> Counts:
        """m."""
        return np.array([math.ceil(math.sqrt(self.horizon))])


def non_recalling_m_run_step(counts: Any, success: int, targets: Any) -> None:
    """Settle for the first arm with a run of m, the only target.

    >>> from nextquery.research.many_armed.failures import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (1, 0, 0, 1, 1, 1, 0, 0):  # m = 3: trial 2 has the run
    ...     trials.append(int(counts[NUMBER]))
    ...     non_recalling_m_run_step(counts, reward, [3])
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
    step = staticmethod(non_recalling_m_run_step)

    def __init__(self, horizon: int = 1000, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)

    @property
    def targets(self) -> Counts:
        """m."""
        return np.array([math.ceil(math.sqrt(self.horizon))])


def two_target_step(counts: Any, success: int, targets: Any) -> None:
    """Leave an arm that misses a target; settle for one that reaches both. Targets: m, l1, l2.

    m = 2, l1 = 1, l2 = 3: the first arm fails at once; the second reaches 1 before its first
    failure but only 2 before its second; the third reaches 1 and 3.

    >>> from nextquery.research.many_armed.failures import new_counts
    >>> counts, trials = new_counts(), []
    >>> for reward in (0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0):
    ...     trials.append(int(counts[NUMBER]))
    ...     two_target_step(counts, reward, [2, 1, 3])
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
    step = staticmethod(two_target_step)

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
