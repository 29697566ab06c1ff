"""FeedbackUCB: one model per arm, with untried arms ordered by what failures suggest."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number
from nextquery.policies.lin_ucb import TIE
from nextquery.policies.packed import (
    MOST,
    Choice,
    Context,
    UnpackedStep,
    Vectors,
    arms_in,
    pack_arms,
    pack_vectors,
)
from nextquery.policies.policy import Floats, Policy, State
from nextquery.policies.ridge import DisjointRidge, Ridge, checked_days
from nextquery.selection.selector import Candidates


class FeedbackUCB(Policy):
    """Disjoint LinUCB with ties broken by relevance feedback (after Rocchio 1971).

    A failed recommendation is evidence about its neighbours. A ridge model over the arms' vectors
    starts as similarity to the anchor and learns how rewards differ from it: the expected reward
    of an arm is sim + xᵀw, with w = A⁻¹ Σ x (r − sim), A = λI + Σ xxᵀ. Arms with equal scores,
    mostly those never tried, are tried in this order, then by preference. Use it for one anchor at
    a time: w does not depend on the anchor.

    In a packed step (`failures`) the arms come first and the vectors get the room that is left,
    usually enough for a sample. If not even two vectors fit, only the disjoint model learns from
    the step.

    Parameters
    ----------
    alpha : weight of the disjoint model's bonus, at least 0; 0.3 as published.
    ridge : ridge of the disjoint model, above 0.
    feedback : λ > 0, the weight of similarity: this many failures nearby weigh as much as the
        similarity itself.
    half_life : days after which an example counts half, above 0; None: never (see `LinUCB`).

    >>> from nextquery import ArmPool, Context, MaxUtility
    >>> rows = [[1, 0, 0], [3, 1, 0], [3, 1.1, 0], [3, 0, 1.2]]
    >>> pool = ArmPool.from_vectors(["a", "b", "c", "d"], rows)
    >>> candidates = MaxUtility(k=3).select(pool, [1, 0, 0], exclude=[0])
    >>> policy, context = FeedbackUCB(feedback=1.0), Context(anchor=[1, 0, 0])
    >>> first = policy.choose(candidates, context)
    >>> policy.update(first, 0)
    >>> first.arm, policy.choose(candidates, context).arm  # not 2, a near-copy of 1
    (1, 3)
    """

    assumptions = "A fixed mean per arm; untried arms near one that failed are likelier to fail."
    reference = "Disjoint LinUCB, Li et al. 2010; ties by relevance feedback, after Rocchio 1971"

    def __init__(
        self,
        alpha: float = 0.3,
        ridge: float = 1.0,
        feedback: float = 30.0,
        *,
        half_life: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.alpha = number(alpha, "alpha", low=0)
        self.ridge = number(ridge, "ridge", low=0, above_low=True)
        self.feedback = number(feedback, "feedback", low=0, above_low=True)
        self.half_life = checked_days(half_life)
        self._own = DisjointRidge(self.ridge, half_life=self.half_life)
        self._shared = Ridge(self.feedback, half_life=self.half_life)

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        """Return the arm's vector and its similarity, so that updates do not need the anchor."""
        return np.column_stack([candidates.vectors.astype(np.float64), candidates.similarities])

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        if not len(candidates):
            return np.empty(0)
        means, widths = self._own.means_and_widths(candidates.arms)
        return means + self.alpha * widths

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        best = np.flatnonzero(scores >= scores.max() - TIE)
        expected = features[best, -1] + self._shared.means(features[best, :-1])
        best = best[expected >= expected.max() - TIE]
        first = np.lexsort((candidates.arms[best], -candidates.preferences[best]))[0]
        probabilities = np.zeros(len(candidates))
        probabilities[best[first]] = 1.0
        return probabilities

    def _correct_at(
        self, choice: Choice, old: float | None, new: float | None, at: float | None
    ) -> None:
        self._own.replace(choice.arm, old, new, at=at)
        x, similarity = choice.features[:-1], float(choice.features[-1])
        before = None if old is None else old - similarity
        after = None if new is None else new - similarity
        self._shared.replace(x, before, after, at=at)

    def _failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator
    ) -> bytes:
        arms = pack_arms(candidates.arms, rng)
        features = self._features(candidates, context)
        return arms + pack_vectors(features, rng, room=MOST - len(arms))

    def _check_step(self, step: UnpackedStep, success: Choice | None) -> None:
        self._own.check_step(arms_in(step), success)
        if step.vectors is not None:
            self._shared.check_step(Vectors(step.vectors.rows[:, :-1], step.vectors.weight))
            step.vectors.of_success(success)

    def _observe(
        self, step: UnpackedStep, success: Choice | None, sign: int, at: float | None
    ) -> None:
        arms = arms_in(step)
        if step.vectors is not None:
            rows, weight = step.vectors
            vectors = Vectors(rows[:, :-1], weight)
            rewards = -weight * (rows[:, -1] @ rows[:, :-1])  # each is 0 − similarity
            b = rewards + step.vectors.of_success(success)[:-1]
        self._own.observe(arms, None if success is None else success.arm, sign=sign, at=at)
        if step.vectors is not None:
            self._shared.observe(vectors, b, sign=sign, at=at)

    @property
    def learns(self) -> str:
        """Arms, and how rewards differ from similarity."""
        return "feedback"

    @property
    def dimension(self) -> int:
        """The number of features: those of the shared model, and the similarity."""
        return self._shared.b.size + 1 if self._shared.b.size else 0

    def _models(self) -> Sequence[DisjointRidge | Ridge]:
        return (self._own, self._shared)

    def _state(self) -> State:
        shared = {f"shared_{name}": array for name, array in self._shared.state().items()}
        return {**self._own.state(), **shared}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._own.restore(state)
        prefix = "shared_"
        shared = {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
        self._shared.restore(shared)
