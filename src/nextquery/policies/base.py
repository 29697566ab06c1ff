"""The base class of policies: choose a candidate, observe a reward, learn."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.params import (
    as_text_array,
    from_text_array,
    generator_from,
    generator_state,
    params_of,
)
from nextquery.select.base import Candidates

Floats = NDArray[np.float64]
State = dict[str, NDArray[Any]]
_NUMBERS = (int, float, np.integer, np.floating)


@dataclass(frozen=True, eq=False)
class Context:
    """What is known when a choice is made.

    `anchor` is the vector of the current query, `history` the ids of the session's earlier
    queries, `trial` the number of this recommendation in the session, from 1.
    """

    anchor: ArrayLike
    history: tuple[int, ...] = ()
    trial: int = 1

    def __post_init__(self) -> None:
        anchor = np.asarray(self.anchor)
        if anchor.ndim != 1 or anchor.dtype.kind not in "fiu" or not np.isfinite(anchor).all():
            raise InvalidInput(
                "the anchor of a context must be one row of finite numbers; received "
                f"{anchor.dtype} of shape {anchor.shape}: {anchor.ravel()[:4]}."
            )
        whole_number(self.trial, "trial", at_least=1)


@dataclass(frozen=True, eq=False)
class Choice:
    """A recommendation, with everything needed to learn from its reward later.

    `propensity` is the probability with which this arm was chosen (in a slate: given the entries
    above it); `propensity_estimated` is true if it comes from posterior draws.
    """

    arm: int
    features: Floats
    score: float
    propensity: float
    propensity_estimated: bool = False
    id: str = ""
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON preserves exactly."""
        return {**self.__dict__, "features": self.features.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Choice":
        """Restore a choice from `to_dict`, in this process or another."""
        return cls(**{**values, "features": np.asarray(values["features"], np.float64)})


class Policy(ABC):
    """A bandit over candidates. A subclass implements `_probabilities` and the hooks it needs.

    Random draws come from the `rng` of a call, or else from a generator made from `seed`.
    """

    estimated = False
    """Whether propensities are estimates."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = whole_number(seed, "seed", at_least=0)
        self._rng = np.random.default_rng(self.seed)

    @property
    def learns(self) -> str:
        """What its model is learnt from; policies with equal values can share what they learnt.

        Empty for a policy that learns nothing.
        """
        return ""

    @property
    def dimension(self) -> int:
        """The number of features that its examples have; 0 if any number will do."""
        return 0

    @property
    def needs_memory(self) -> bool:
        """Whether the policy needs the features of a memory of sessions."""
        return False

    def choose(
        self,
        candidates: Candidates,
        context: Context,
        rng: np.random.Generator | None = None,
        *,
        exploration: float = 0.0,
    ) -> Choice | None:
        """Choose one candidate; None if there is none."""
        return next(iter(self.rank(candidates, context, 1, rng, exploration=exploration)), None)

    def rank(
        self,
        candidates: Candidates,
        context: Context,
        m: int,
        rng: np.random.Generator | None = None,
        *,
        exploration: float = 0.0,
    ) -> list[Choice]:
        """Return a slate of up to m different candidates, drawn one after the other.

        With probability `exploration` an entry is drawn uniformly instead; its propensity accounts
        for that.
        """
        whole_number(m, "m", at_least=1)
        mix = number(exploration, "exploration", low=0, high=1)
        draws = self._rng if rng is None else rng
        features = self._features(candidates, context)
        scores = self._leading_scores(candidates, features, m)
        rest, place = candidates, 0
        slate: list[Choice] = []
        while len(slate) < m and len(rest) > (1 if slate else 0):
            if slate:
                others = np.arange(len(rest)) != place
                rest, features, scores = rest.take(others), features[others], scores[others]
            own = self._probabilities(rest, features, scores, draws)
            mixed = (1 - mix) * own + mix / len(rest) if mix else own
            place = _draw(mixed, draws)
            x, score = features[place].copy(), scores[place]
            if score == -np.inf:  # drawn by exploration, so not scored yet
                score = self._scores(rest.take([place]), x[None])[0]
            propensity = float(mixed[place])
            slate.append(Choice(int(rest.arms[place]), x, float(score), propensity, self.estimated))
        return slate

    def as_choice(self, candidates: Candidates, context: Context, arm: int | None) -> Choice | None:
        """Return the choice of a given arm as if it had been recommended, to learn from a log.

        None if it is not a candidate. The propensity is unknown, so it is NaN.
        """
        place = np.flatnonzero(candidates.arms == arm)
        if arm is None or not place.size:
            return None
        alone = candidates.take(place)
        features = self._features(alone, context)
        score = self._scores(alone, features)[0]
        return Choice(arm, features[0], float(score), float("nan"), self.estimated)

    def update(self, choice: Choice, reward: float) -> None:
        """Learn the reward of a choice, now or later, made by this policy or another copy."""
        self.correct(choice, None, reward)

    def correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        """Replace the reward `old` of a choice with `new`; None means unobserved."""
        before, after = _reward(old), _reward(new)
        if before != after:
            self._correct(choice, before, after)

    def discount(self, examples: int) -> None:
        """Reduce the weight of everything learnt so far to `examples` examples, if it has more.

        This keeps a warm start from a long log from outweighing later clicks. It applies to models
        shared by all arms; a policy without one does not change.
        """
        self._discount(whole_number(examples, "examples", at_least=0))

    def take_over(self, current: "Policy", base: "Policy") -> None:
        """Add what `current` has learnt since it was `base`, to what this policy has learnt.

        All three must learn from the same features (`learns`); this one may have more of them.
        """
        if not self.learns == current.learns == base.learns:
            raise InvalidInput(
                f"a policy that learns from {self.learns or 'nothing'!r} cannot take over what one "
                f"learnt from {current.learns or 'nothing'!r}."
            )
        models = zip(self._models(), current._models(), base._models(), strict=True)
        for mine, theirs, earlier in models:
            mine.take_over(theirs, earlier)

    def learnt_since(self, base: "Policy") -> int:
        """Return the number of examples learnt since this policy was `base`."""
        models = zip(self._models()[:1], base._models()[:1], strict=True)
        return sum(mine.updates - earlier.updates for mine, earlier in models)

    def estimates(self, candidates: Candidates, context: Context) -> tuple[Floats, Floats] | None:
        """Return the mean and width of every candidate; None without a shared model."""
        return self._estimates(self._features(candidates, context)) if len(candidates) else None

    def state(self) -> State:
        """Return everything learnt, as arrays; `from_state` creates an equal policy."""
        return {
            "params": as_text_array(self.get_params()),
            "generator": as_text_array(generator_state(self._rng)),
            **self._state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """Create a policy from a `state`."""
        policy = cls(**from_text_array(state["params"]))
        policy._rng = generator_from(from_text_array(state["generator"]))
        policy._restore(state)
        return policy

    def get_params(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return params_of(self)

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"

    @abstractmethod
    def _probabilities(
        self,
        candidates: Candidates,
        features: Floats,
        scores: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """Return the probability of choosing each candidate; sums to 1."""

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        """Return the model's features of each candidate; empty unless the policy learns."""
        return np.empty((len(candidates), 0))

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        """Return the score of each candidate."""
        return np.zeros(len(candidates))

    def _leading_scores(self, candidates: Candidates, features: Floats, m: int) -> Floats:
        """Return the scores; −∞ may replace one that cannot tie with the m best."""
        return self._scores(candidates, features)

    def _estimates(self, features: Floats) -> tuple[Floats, Floats] | None:
        """Return mean and width for rows of features."""
        return None

    def _correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        """Learn; does nothing in a policy without a model."""
        return

    def _discount(self, examples: int) -> None:
        """Reduce the weight of what was learnt; see `discount`."""
        return

    def _models(self) -> Sequence[Any]:
        """Return the models: each has `take_over` and `updates`."""
        return ()

    def _state(self) -> State:
        """Return what was learnt."""
        return {}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `_state` returned."""
        return


def _draw(probabilities: Floats, rng: np.random.Generator) -> int:
    """Draw a position by its probability; uses no random number if one has probability 1."""
    likeliest = int(np.argmax(probabilities))
    if probabilities[likeliest] == 1.0:
        return likeliest
    return int(rng.choice(len(probabilities), p=probabilities / probabilities.sum()))


def _reward(value: float | None) -> float | None:
    if value is None:
        return None
    if not isinstance(value, _NUMBERS) or not math.isfinite(value):
        raise InvalidInput(f"a reward must be a finite number, or None; received {value!r}.")
    return float(value)
