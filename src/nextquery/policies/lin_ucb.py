"""LinUCB: choose the arm with the largest upper confidence bound (Li et al. 2010).

`features_of` gives the features of a candidate for a shared linear model.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, one_of
from nextquery.errors import InvalidInput
from nextquery.policies.packed import (
    Choice,
    Context,
    UnpackedStep,
    arms_in,
    pack_arms,
    pack_vectors,
    vectors_in,
)
from nextquery.policies.policy import Floats, Ids, Policy, State
from nextquery.policies.ridge import DisjointRidge, Ridge, checked_days
from nextquery.selection.selector import Candidates

FEATURES = ("interaction", "arm", "memory")


def features_of(kind: str, candidates: Candidates, context: Context) -> NDArray[np.float64]:
    """Return one row of features per candidate.

    ``arm``: the arm's vector, as published. ``interaction``: the elementwise product of anchor and
    arm, so that one model can learn what follows what. ``memory``: the features of a memory of
    sessions (`nextquery.memory.FEATURES`), which a recommender with a memory provides.
    """
    if kind == "memory":
        if candidates.features is None:
            raise InvalidInput(
                "this policy ranks by memory features, and these candidates have none. Pass a "
                "memory to the recommender: memory=nq.Memory.of_pool(pool)."
            )
        return candidates.features.astype(np.float64)
    vectors = candidates.vectors.astype(np.float64)
    if kind == "arm":
        return vectors
    anchor = np.asarray(context.anchor, dtype=np.float64)
    if anchor.shape != vectors.shape[1:]:
        raise InvalidInput(
            f"the context's anchor must have {vectors.shape[1]} numbers, like the candidates' "
            f"vectors; received shape {anchor.shape}."
        )
    vectors *= anchor
    return vectors


TIE = 1e-9
"""Scores this close to the best count as equal to it."""
FEW = 32
"""Up to this many candidates, score all: cheaper than finding those that may lead."""


class LinUCB(Policy):
    """Score = θᵀx + α √(xᵀA⁻¹x): the estimate plus a bonus for uncertainty.

    Parameters
    ----------
    alpha : weight of the bonus, at least 0; 0.3 as published.
    ridge : λ > 0, the strength of the ridge.
    model : ``shared``, one model for all arms; ``disjoint``, one per arm, as published: arms do not
        learn from each other.
    features : ``interaction``, ``arm`` or ``memory``, for the shared model (see `features_of`); the
        disjoint model always uses the arm's vector.
    prior : ``preference`` breaks ties by preference, which also orders the untried arms; None
        breaks them at random, as published.
    half_life : days after which an example counts half, above 0; None: examples count fully for
        ever. It needs the times of decisions: `at` of `update`, `correct` and `observe`.

    >>> from nextquery import ArmPool, Context, MaxUtility
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [1, 2]])
    >>> candidates = MaxUtility(k=2).select(pool, [1, 0], exclude=[0])
    >>> policy, context = LinUCB(model="disjoint"), Context(anchor=[1, 0])
    >>> choice = policy.choose(candidates, context)
    >>> policy.update(choice, 0)
    >>> choice.arm, policy.choose(candidates, context).arm
    (1, 2)
    """

    assumptions = "The mean reward is linear in the features (shared), or fixed per arm (disjoint)."
    regret = "none is proved for this form"
    reference = (
        "Li, Chu, Langford, Schapire 2010, A contextual-bandit approach; Parambath et al. 2021"
    )

    def __init__(
        self,
        alpha: float = 0.3,
        ridge: float = 1.0,
        model: str = "shared",
        features: str = "interaction",
        prior: str | None = "preference",
        *,
        half_life: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.alpha = number(alpha, "alpha", low=0)
        self.ridge = number(ridge, "ridge", low=0, above_low=True)
        self.model = one_of(model, "model", ("shared", "disjoint"))
        self.features = one_of(features, "features", FEATURES)
        self.prior = prior if prior is None else one_of(prior, "prior", ("preference",))
        self.half_life = checked_days(half_life)
        self._shared = Ridge(self.ridge, half_life=self.half_life)
        self._disjoint = DisjointRidge(self.ridge, half_life=self.half_life)

    @property
    def learns(self) -> str:
        """The features of the shared model, or ``disjoint``."""
        return "disjoint" if self.model == "disjoint" else self.features

    @property
    def dimension(self) -> int:
        """The number of features of the shared model's examples."""
        return self._shared.b.size

    @property
    def needs_memory(self) -> bool:
        """Whether the policy needs the features of a memory."""
        return self.model == "shared" and self.features == "memory"

    def _estimates(self, features: Floats) -> tuple[Floats, Floats] | None:
        if self.model == "disjoint":
            return None
        return self._shared.means(features), self._shared.widths(features)

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        kind = "arm" if self.model == "disjoint" else self.features
        return features_of(kind, candidates, context)

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        if not len(candidates):
            return np.empty(0)
        if self.model == "disjoint":
            means, widths = self._disjoint.means_and_widths(candidates.arms)
        else:
            means, widths = self._shared.means(features), self._shared.widths(features)
        return means + self.alpha * widths

    def _leading_scores(
        self, candidates: Sequence[Candidates], features: Sequence[Floats], m: Sequence[int]
    ) -> list[Floats]:
        if self.model == "disjoint":
            return super()._leading_scores(candidates, features, m)
        small = [len(x) <= max(FEW, length) for x, length in zip(features, m, strict=True)]
        large = [n for n, few in enumerate(small) if not few]
        lengths = [m[n] for n in large]
        leading = self._shared.leading([features[n] for n in large], self.alpha, lengths, TIE)
        found = dict(zip(large, leading, strict=True))
        return [
            self._scores(candidates[n], features[n]) if few else found[n]
            for n, few in enumerate(small)
        ]

    def _leader(self, candidates: Candidates, scores: Floats, left: Ids) -> int | None:
        if self.prior is None:
            return None
        best = _best(scores[left])
        if best.size > 1:
            arms, preferences = candidates.arms[left[best]], candidates.preferences[left[best]]
            best = best[np.lexsort((arms, -preferences))]
        return int(best[0])

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        best = _best(scores)
        probabilities = np.zeros(len(candidates))
        probabilities[best] = 1.0 / best.size
        return probabilities

    def _correct_at(
        self, choice: Choice, old: float | None, new: float | None, at: float | None
    ) -> None:
        if self.model == "disjoint":
            self._disjoint.replace(choice.arm, old, new, at=at)
        else:
            self._shared.replace(choice.features, old, new, at=at)

    def _failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator
    ) -> bytes:
        if self.model == "disjoint":
            return pack_arms(candidates.arms, rng)
        return pack_vectors(self._features(candidates, context), rng)

    def _check_step(self, step: UnpackedStep, success: Choice | None) -> None:
        if self.model == "disjoint":
            self._disjoint.check_step(arms_in(step), success)
        else:
            self._shared.check_step(vectors_in(step))
            vectors_in(step).of_success(success)

    def _observe(
        self, step: UnpackedStep, success: Choice | None, sign: int, at: float | None
    ) -> None:
        if self.model == "disjoint":
            arm = None if success is None else success.arm
            self._disjoint.observe(arms_in(step), arm, sign=sign, at=at)
        else:
            vectors = vectors_in(step)
            self._shared.observe(vectors, vectors.of_success(success), sign=sign, at=at)

    def _discount(self, examples: int) -> None:
        self._shared.discount(examples)

    def _models(self) -> Sequence[Ridge | DisjointRidge]:
        return (self._disjoint if self.model == "disjoint" else self._shared,)

    def _state(self) -> State:
        return (self._disjoint if self.model == "disjoint" else self._shared).state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        (self._disjoint if self.model == "disjoint" else self._shared).restore(state)


def _best(scores: Floats) -> Ids:
    """Return the places of the best score and of those that tie with it."""
    best: Ids = (scores >= scores.max() - TIE).nonzero()[0]
    return best
