"""The stream's bandits: policies of the library, one model for all sessions, learning on."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.memory import Recalled, SessionMemory, memory_features
from nextquery.policies import Context, Policy
from nextquery.replay.rankers import Ranker, Step
from nextquery.replay.sessions import Ids
from nextquery.select import Candidates

_FROM_MEMORY = 100  # arms that the memory may add to the candidates


class Bandit(Ranker):
    """A policy on the selected candidates.

    What it learns at a step is what `Recommender.warm_start` learns: the query that really came
    next is a success, if it was a candidate, and what was shown in vain is a failure. Frozen, it
    stays what it was at position `frozen_at` of the log.
    """

    def __init__(
        self,
        pool: ArmPool,
        policy: Policy,
        rng: np.random.Generator,
        *,
        shown: int = 10,
        frozen_at: int | None = None,
    ) -> None:
        self.pool, self.policy, self.rng = pool, policy, rng
        self.shown, self.frozen_at = shown, frozen_at
        self._last: tuple[int, Candidates] | None = None

    def rank(self, step: Step, m: int) -> Ids:
        """The policy's slate."""
        slate = self.policy.rank(self._candidates(step), self._context(step), m, self.rng)
        return np.array([choice.arm for choice in slate], np.int64)

    def learn(self, step: Step, shown: Ids) -> None:
        """Failures of what was shown in vain, and the success of what came next."""
        if self.frozen_at is not None and step.before >= self.frozen_at:
            return
        candidates, context = self._candidates(step), self._context(step)
        for arm in shown[: self.shown].tolist():
            if arm != step.following:
                self._learn(candidates, context, arm, 0.0)
        self._learn(candidates, context, step.following, 1.0)

    def _learn(self, candidates: Candidates, context: Context, arm: int, reward: float) -> None:
        choice = self.policy.as_choice(candidates, context, arm)
        if choice is not None:
            self.policy.update(choice, reward)

    def _context(self, step: Step) -> Context:
        return Context(self.pool.rows([step.now])[0], tuple(step.history[:-1]), len(step.history))

    def _candidates(self, step: Step) -> Candidates:
        if self._last is None or self._last[0] != step.number:
            self._last = (step.number, self._made(step))
        return self._last[1]

    def _made(self, step: Step) -> Candidates:
        return Candidates(
            step.arms, self.pool.rows(step.arms), step.similarities, _in_order(len(step.arms))
        )


class MemoryBandit(Bandit):
    """A bandit whose context is what earlier sessions say of each candidate.

    Candidates are the selected ones and those that the memory of earlier sessions suggests. The
    model sees of each: a constant, its similarity, its share and its log count among the followers
    of the query now running, how near it stood to any query of this session, and its support. So
    one small linear model learns how far to trust similarity, order and popularity, on this log.
    Its weights (`frozen_at`) and its memory (`memory_frozen_at`) can be frozen apart.
    """

    def __init__(
        self,
        pool: ArmPool,
        policy: Policy,
        memory: SessionMemory,
        *,
        memory_frozen_at: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(pool, policy, **options)
        self.memory, self.memory_frozen_at = memory, memory_frozen_at

    def _made(self, step: Step) -> Candidates:
        end = self.memory_frozen_at
        before = step.before if end is None else min(step.before, end)
        recalled = Recalled(
            self.memory.followers(step.history, before),
            self.memory.followers(step.history, before, memory=2),
            self.memory.together(step.history, before),
        )
        arms, similarities = self._with_memory(step, recalled)
        support = self.memory.support(arms, before)
        vectors = memory_features(arms, similarities, recalled, support)
        return Candidates(arms, vectors, similarities, _in_order(len(arms)))

    def _with_memory(self, step: Step, recalled: Recalled) -> tuple[Ids, NDArray[np.float64]]:
        suggested = recalled.suggested()
        hidden = np.concatenate([step.arms, np.array(step.history, np.int64)])
        fresh = suggested[step.open_arms[suggested] & ~np.isin(suggested, hidden)][:_FROM_MEMORY]
        scores = self.pool.score(fresh, self.pool.rows([step.now])[0])
        return np.concatenate([step.arms, fresh]), np.concatenate([step.similarities, scores])


def _in_order(count: int) -> NDArray[np.float64]:
    """Preferences that keep the order in which the candidates come."""
    return np.arange(count, 0, -1).astype(np.float64)
