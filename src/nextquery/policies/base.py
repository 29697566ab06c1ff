"""The contract of a policy: choose one of the candidates, see a reward, learn."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
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

    `anchor` is the vector of the query now running, `history` the ids of the session's earlier
    queries, `trial` the number of this recommendation in the session, from 1.
    """

    anchor: ArrayLike
    history: tuple[int, ...] = ()
    trial: int = 1

    def __post_init__(self) -> None:
        anchor = np.asarray(self.anchor)
        if anchor.ndim != 1 or anchor.dtype.kind not in "fiu" or not np.isfinite(anchor).all():
            raise InvalidInput(
                "the anchor of a context is one row of finite numbers; received "
                f"{anchor.dtype} of shape {anchor.shape}: {anchor.ravel()[:4]}."
            )
        whole_number(self.trial, "trial", at_least=1)


@dataclass(frozen=True, eq=False)
class Choice:
    """A recommendation, with all that learning from its reward needs, however late it comes.

    `propensity` is the probability with which this arm was chosen (in a slate: given the entries
    above it); `propensity_estimated` says that it comes from posterior draws.
    """

    arm: int
    features: Floats
    score: float
    propensity: float
    propensity_estimated: bool = False
    id: str = ""
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON keeps exactly."""
        return {**self.__dict__, "features": self.features.tolist()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Choice":
        """The choice that `to_dict` wrote, in this process or another."""
        return cls(**{**values, "features": np.asarray(values["features"], np.float64)})


class Policy(ABC):
    """A bandit over candidates. A subclass writes `_probabilities` and whichever hooks it needs.

    Random draws come from the `rng` of a call, or else from a generator made from `seed`.
    """

    estimated = False
    """Whether propensities are estimates."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = whole_number(seed, "seed", at_least=0)
        self._rng = np.random.default_rng(self.seed)

    @property
    def needs_memory(self) -> bool:
        """Whether it ranks by what a memory of sessions says, so that it cannot do without one."""
        return False

    def choose(
        self,
        candidates: Candidates,
        context: Context,
        rng: np.random.Generator | None = None,
        *,
        exploration: float = 0.0,
    ) -> Choice | None:
        """One candidate, or None when there is none."""
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
        """A slate: up to m different candidates, each drawn from those the entries above left.

        With probability `exploration` an entry is drawn uniformly instead; its propensity says so.
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
                left = np.arange(len(rest)) != place
                rest, features, scores = rest.take(left), features[left], scores[left]
            own = self._probabilities(rest, features, scores, draws)
            mixed = (1 - mix) * own + mix / len(rest) if mix else own
            place = _draw(mixed, draws)
            x, score = features[place].copy(), scores[place]
            if score == -np.inf:  # drawn against its score, which therefore nobody knows yet
                score = self._scores(rest.take([place]), x[None])[0]
            propensity = float(mixed[place])
            slate.append(Choice(int(rest.arms[place]), x, float(score), propensity, self.estimated))
        return slate

    def as_choice(self, candidates: Candidates, context: Context, arm: int | None) -> Choice | None:
        """The choice of a given arm, as if it had been recommended: to learn from a log.

        None when it is not a candidate. The propensity is not known, so it is NaN.
        """
        place = np.flatnonzero(candidates.arms == arm)
        if arm is None or not place.size:
            return None
        alone = candidates.take(place)
        features = self._features(alone, context)
        score = self._scores(alone, features)[0]
        return Choice(arm, features[0], float(score), float("nan"), self.estimated)

    def update(self, choice: Choice, reward: float) -> None:
        """Learn the reward of a choice, now or later, made here or elsewhere."""
        self.correct(choice, None, reward)

    def correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        """Take the reward `old` of a choice back and put `new` in its place; None: unobserved."""
        before, after = _reward(old), _reward(new)
        if before != after:
            self._correct(choice, before, after)

    def discount(self, examples: int) -> None:
        """Give all that was learnt so far the weight of so many examples, if it has more.

        So a warm start from a long log does not drown the clicks that come after it. It concerns
        models that all arms share; a policy without one stays as it is.
        """
        self._discount(whole_number(examples, "examples", at_least=0))

    def estimates(self, candidates: Candidates, context: Context) -> tuple[Floats, Floats] | None:
        """What is believed of every candidate: mean and width; None without a shared model."""
        return self._estimates(self._features(candidates, context)) if len(candidates) else None

    def state(self) -> State:
        """All that was learnt, as arrays; `from_state` makes an equal policy of it."""
        return {
            "params": as_text_array(self.get_params()),
            "generator": as_text_array(generator_state(self._rng)),
            **self._state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Self:
        """The policy whose `state` this is."""
        policy = cls(**from_text_array(state["params"]))
        policy._rng = generator_from(from_text_array(state["generator"]))
        policy._restore(state)
        return policy

    def get_params(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return params_of(self)

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({said})"

    @abstractmethod
    def _probabilities(
        self,
        candidates: Candidates,
        features: Floats,
        scores: Floats,
        rng: np.random.Generator,
    ) -> Floats:
        """How probable each candidate is to be chosen; sums to 1."""

    def _features(self, candidates: Candidates, context: Context) -> Floats:
        """What the model sees of each candidate; nothing, unless it learns."""
        return np.empty((len(candidates), 0))

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        """How good each candidate looks."""
        return np.zeros(len(candidates))

    def _leading_scores(self, candidates: Candidates, features: Floats, m: int) -> Floats:
        """The scores; −∞ may stand for one that is known not to tie with the m best."""
        return self._scores(candidates, features)

    def _estimates(self, features: Floats) -> tuple[Floats, Floats] | None:
        """Mean and width for rows of features."""
        return None

    def _correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        """Learn; a policy without a model has nothing to."""
        return

    def _discount(self, examples: int) -> None:
        """Be less sure; see `discount`."""
        return

    def _state(self) -> State:
        """What was learnt."""
        return {}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `_state` gave."""
        return


def _draw(probabilities: Floats, rng: np.random.Generator) -> int:
    """A place by its probability; no random number is spent where there is no choice."""
    sure = int(np.argmax(probabilities))
    if probabilities[sure] == 1.0:
        return sure
    return int(rng.choice(len(probabilities), p=probabilities / probabilities.sum()))


def _reward(value: float | None) -> float | None:
    if value is None:
        return None
    if not isinstance(value, _NUMBERS) or not math.isfinite(value):
        raise InvalidInput(f"a reward must be a finite number, or None; received {value!r}.")
    return float(value)
