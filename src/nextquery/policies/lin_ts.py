"""LinTS: act on a model drawn from the posterior (Agrawal and Goyal 2013)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, one_of, whole_number
from nextquery.policies.lin_ucb import FEATURES, features_of
from nextquery.policies.packed import Choice, Context, UnpackedStep, pack_vectors, vectors_in
from nextquery.policies.policy import Floats, Policy, State
from nextquery.policies.ridge import Ridge, checked_days
from nextquery.selection.selector import Candidates


class LinTS(Policy):
    """Linear Thompson sampling: draw θ̃ ~ N(θ, v² A⁻¹) and choose the arm with the largest θ̃ᵀx.

    `draws` models are drawn and one of them decides. The share that agrees with it is the
    estimated propensity.

    Parameters
    ----------
    v : width of the posterior, above 0; by default computed from the next three.
    delta, noise, exploration : δ in (0, 1), R > 0 and ε in (0, 1]:
        v = R √(24/ε · d · ln(1/δ)). The defaults are the published ones (v = 0.4625 at d = 128).
    ridge : λ > 0.
    features : ``interaction``, ``memory``, or ``arm`` as published (see `features_of`).
    draws : models drawn per choice, at least 1 (1 is plain Thompson sampling; its propensity is
        then meaningless).
    half_life : days after which an example counts half, above 0; None: never (see `LinUCB`).

    >>> round(LinTS().width(128), 4)
    0.4625
    """

    assumptions = "The mean reward is linear in the features, with R-subgaussian noise."
    regret = "Õ(d^(3/2) √T)"
    reference = "Agrawal, Goyal 2013, Thompson sampling for contextual bandits with linear payoffs"

    estimated = True

    def __init__(
        self,
        v: float | None = None,
        delta: float = 0.61,
        noise: float = 0.01,
        exploration: float = 0.71,
        *,
        ridge: float = 1.0,
        features: str = "interaction",
        draws: int = 100,
        half_life: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.v = v if v is None else number(v, "v", low=0, above_low=True)
        self.delta = number(delta, "delta", low=0, high=1 - 1e-12, above_low=True)
        self.noise = number(noise, "noise", low=0, above_low=True)
        self.exploration = number(exploration, "exploration", low=0, high=1, above_low=True)
        self.ridge = number(ridge, "ridge", low=0, above_low=True)
        self.features = one_of(features, "features", FEATURES)
        self.draws = whole_number(draws, "draws", at_least=1)
        self.half_life = checked_days(half_life)
        self._shared = Ridge(self.ridge, half_life=self.half_life)

    def width(self, d: int) -> float:
        """Return v, as given or from the published formula for vectors of dimension d."""
        if self.v is not None:
            return self.v
        return self.noise * math.sqrt(24 / self.exploration * d * math.log(1 / self.delta))

    @property
    def learns(self) -> str:
        """The features of the model."""
        return self.features

    @property
    def dimension(self) -> int:
        """The number of features of the examples."""
        return self._shared.b.size

    @property
    def needs_memory(self) -> bool:
        """Whether the policy needs the features of a memory."""
        return self.features == "memory"

    def _estimates(self, features: Floats) -> tuple[Floats, Floats] | None:
        return self._shared.means(features), self._shared.widths(features)

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        return features_of(self.features, candidates, context)

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        return self._shared.means(features) if len(candidates) else np.empty(0)

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        d = features.shape[1]
        noise = rng.standard_normal((d, self.draws))
        inverse, _ = self._shared.for_reading(d)
        factor = np.linalg.cholesky(inverse)  # A⁻¹ = LLᵀ, so Lz has that covariance
        deviations = features @ (factor @ noise)
        winners = np.argmax(scores[:, None] + self.width(d) * deviations, axis=0)
        return np.bincount(winners, minlength=len(candidates)) / self.draws

    def _correct_at(
        self, choice: Choice, old: float | None, new: float | None, at: float | None
    ) -> None:
        self._shared.replace(choice.features, old, new, at=at)

    def _failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator
    ) -> bytes:
        return pack_vectors(self._features(candidates, context), rng)

    def _check_step(self, step: UnpackedStep, success: Choice | None) -> None:
        self._shared.check_step(vectors_in(step))
        vectors_in(step).of_success(success)

    def _observe(
        self, step: UnpackedStep, success: Choice | None, sign: int, at: float | None
    ) -> None:
        vectors = vectors_in(step)
        self._shared.observe(vectors, vectors.of_success(success), sign=sign, at=at)

    def _discount(self, examples: int) -> None:
        self._shared.discount(examples)

    def _models(self) -> Sequence[Ridge]:
        return (self._shared,)

    def _state(self) -> State:
        return self._shared.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._shared.restore(state)
