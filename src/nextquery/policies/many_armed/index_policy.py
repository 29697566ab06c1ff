"""The base class of policies that play the largest index of the arms in play."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import whole_number
from nextquery.policies.base import Floats, Policy, State
from nextquery.policies.choice import Choice, Context
from nextquery.policies.many_armed.order import Draws
from nextquery.policies.many_armed.statistics import ArmStatistics
from nextquery.policies.packed import Step, arms_in, pack_arms
from nextquery.selection.selector import Candidates

UNPLAYED = 1e4
"""The index of an arm that was not played yet: above any other."""


class IndexPolicy(Policy):
    """Score = index(mean, variance, plays, t, K, constants); the largest is played.

    t is the number of the round, from 1; K the number of arms in play. Unplayed arms come first.
    Ties are broken at random. The arms in play are drawn once, without replacement: see `Draws`.
    A step whose next query is known counts as a play of every candidate, and as one round.
    A subclass defines `index`, which NumPy and Numba can both run, and may limit `arms_in_play`.
    """

    index: ClassVar[Callable[..., Any]]

    fixed: ClassVar[bool] = False
    """Whether an arm's index changes only when it is played."""

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._seen = ArmStatistics()
        self._draws = Draws(self.seed)

    @property
    @abstractmethod
    def constants(self) -> tuple[float, ...]:
        """The constants of the index."""

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return how many of the candidates are in play in round t."""
        return arms

    @property
    def learns(self) -> str:
        """The rewards of each arm."""
        return "arm rewards"

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        n, t = len(candidates), self._seen.updates + 1
        if not n:
            return np.empty(0)
        k = min(n, self.arms_in_play(n, t))
        places = np.arange(n) if k == n else self._draws.places(candidates.arms, k)
        plays, means, variances = self._seen.of(candidates.arms[places])
        played = np.flatnonzero(plays > 0)
        index = np.full(k, UNPLAYED)
        index[played] = type(self).index(
            means[played], variances[played], plays[played], max(t, 2), k, self.constants
        )
        scores = np.full(n, -np.inf)
        scores[places] = index
        return scores

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        best = scores == scores.max()
        return np.asarray(best / np.count_nonzero(best), np.float64)

    def _correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        self._seen.replace(choice.arm, old, new)

    def _failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator
    ) -> bytes:
        return pack_arms(candidates.arms, rng)

    def _check_step(self, step: Step, success: Choice | None) -> None:
        arms_in(step)
        if success is not None:
            whole_number(success.arm, "arm", at_least=0)

    def _observe(self, step: Step, success: Choice | None, sign: int, at: float | None) -> None:
        self._seen.observe(arms_in(step), None if success is None else success.arm, sign)

    def _models(self) -> Sequence[ArmStatistics]:
        return (self._seen,)

    def _state(self) -> State:
        return self._seen.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._seen.restore(state)
