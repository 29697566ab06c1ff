"""The base class of policies: choose a candidate, draw a slate, observe rewards, learn.

A slate is drawn entry by entry, with the probability of each. When the next query of a step is
known, every candidate was answered, and a policy can learn from the whole step. A policy also
describes itself, for the list of policies and for docs/many-armed.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import (
    as_text_array,
    from_text_array,
    generator_from,
    generator_state,
    number,
    params_of,
    whole_number,
)
from nextquery.errors import InvalidInput
from nextquery.policies.exploration import drawn, left_below, mixed
from nextquery.policies.packed import Choice, Context, UnpackedStep, checked_reward, unpack
from nextquery.policies.ridge import Ridge, checked_time
from nextquery.selection.selector import Candidates


class About:
    """The facts of a policy, in plain text. Empty means that there is nothing to say.

    `assumptions` is one sentence: what must hold for the reference's results. `regret` is the bound
    that the reference proves, if we could confirm it. `reference` names the source.

    `order_matters` says why the state depends on the order of rewards, if it does. Such a policy
    learns each reward before its next choice. It rejects corrections and late feedback, and it
    cannot run where these happen: in the stream and in the service.
    """

    assumptions: ClassVar[str] = ""
    regret: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    order_matters: ClassVar[str] = ""


class Observes:
    """The part of a policy that learns whole steps; a policy without a model learns nothing."""

    _rng: np.random.Generator

    def failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator | None = None
    ) -> bytes:
        """Return what there would be to learn if every candidate failed, in at most `MOST` bytes.

        Keep it until the next query is known, then call `observe`. What does not fit is replaced by
        a sample (see `nextquery.policies.packed`). Empty without candidates, for a policy that
        learns nothing, and if not even a sample fits: learn from single choices then.
        """
        draws = self._rng if rng is None else rng
        return self._failures(candidates, context, draws) if len(candidates) else b""

    def observe(
        self,
        failures: bytes,
        success: Choice | None,
        *,
        sign: int = 1,
        at: float | None = None,
    ) -> None:
        """Learn from a step whose next query is known: all candidates failed but `success`.

        It counts as one update. Empty `failures` teach nothing.

        Parameters
        ----------
        failures : what `failures` returned for the candidates of the step.
        success : the candidate that came next, from `as_choice` or a slate; None if none did.
        sign : 1, or -1 to take back what the same arguments taught.
        at : Unix time of the decision; it matters to a policy with a half-life.
        """
        if sign not in (1, -1):
            raise InvalidInput(f"sign must be 1, or -1 to take back; received {sign!r}.")
        step, time = unpack(failures), checked_time(at)
        if failures:
            self._check_step(step, success)
            self._observe(step, success, sign, time)

    def check_observation(self, failures: bytes, success: Choice | None) -> None:
        """Raise `InvalidInput` if `observe` could not learn this. Nothing changes."""
        step = unpack(failures)
        if failures:
            self._check_step(step, success)

    def _failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator
    ) -> bytes:
        """Pack what the failures of all candidates would teach; see `failures`."""
        return b""

    def _observe(
        self, step: UnpackedStep, success: Choice | None, sign: int, at: float | None
    ) -> None:
        """Learn a whole step; see `observe`."""
        return

    def _check_step(self, step: UnpackedStep, success: Choice | None) -> None:
        """Raise `InvalidInput` if the model could not learn a step."""
        return


Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


class Slates(ABC):
    """The part of a policy that draws slates; a subclass implements `_probabilities`."""

    estimated = False
    """Whether propensities are estimates."""

    _rng: np.random.Generator

    def distributions(
        self,
        candidates: Candidates,
        context: Context,
        arms: Sequence[int],
        rng: np.random.Generator | None = None,
        *,
        exploration: float = 0.0,
    ) -> list[Floats]:
        """Return how probable each candidate is at each place of a given slate.

        Entry s of the result has a probability for each candidate, given that the places above s
        hold the first s of `arms`. Below an arm that is no candidate, or that the slate could not
        have there, all probabilities are 0. `rank` draws with the same ones.

        >>> import nextquery as nq
        >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
        >>> candidates = nq.MaxUtility(k=2).select(pool, [1, 0], exclude=[0])
        >>> context, first = nq.Context([1, 0]), nq.MostSimilar(top=1)
        >>> found = first.distributions(candidates, context, [2, 1], exploration=0.1)
        >>> candidates.arms.tolist(), [row.round(2).tolist() for row in found]
        ([1, 2], [[0.95, 0.05], [1.0, 0.0]])
        """
        mix = number(exploration, "exploration", low=0, high=1)
        features = self._features(candidates, context)
        scores = self._scores(candidates, features)
        left, found = np.arange(len(candidates)), list[Floats]()
        draws = self._rng if rng is None else rng
        for arm in arms:
            row = np.zeros(len(candidates))
            if len(left):
                row[left] = self._drawn(candidates, features, scores, left, draws, mix)[1]
            found.append(row)
            place = left[candidates.arms[left] == arm]
            left = left_below(candidates, left, int(place[0])) if place.size else left[:0]
        return found

    def _slate(
        self,
        candidates: Candidates,
        features: Floats,
        scores: Floats,
        m: int,
        draws: np.random.Generator,
        mix: float,
    ) -> list[Choice]:
        left = np.arange(len(candidates))
        slate: list[Choice] = []
        while len(slate) < m and len(left):
            own, mixed = self._drawn(candidates, features, scores, left, draws, mix)
            place = drawn(mixed, draws)
            at = left[place]
            x, score = features[at].copy(), scores[at]
            if score == -np.inf:  # drawn by exploration, so not scored yet
                score = self._scores(candidates.take([at]), x[None])[0]
            arm, propensity = int(candidates.arms[at]), float(mixed[place])
            explored = bool(own[place] == 0.0)
            slate.append(
                Choice(arm, x, float(score), propensity, self.estimated, explored=explored)
            )
            left = left_below(candidates, left, int(at))
        return slate

    def _drawn(
        self,
        candidates: Candidates,
        features: Floats,
        scores: Floats,
        left: Ids,
        draws: np.random.Generator,
        mix: float,
    ) -> tuple[Floats, Floats]:
        """Return how probable each of the `left` is next, without and with exploration."""
        leader = self._leader(candidates, scores, left)
        if leader is None:
            rest = candidates if len(left) == len(candidates) else candidates.take(left)
            own = self._probabilities(rest, features[left], scores[left], draws)
        else:
            own = np.zeros(len(left))
            own[leader] = 1.0
        return own, mixed(own, mix)

    def _leader(self, candidates: Candidates, scores: Floats, left: Ids) -> int | None:
        """Return which of the candidates `left` is chosen for certain, as a place in `left`.

        None if the choice is random: see `_probabilities`.
        """
        return None

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


State = dict[str, NDArray[Any]]


class Policy(Observes, About, Slates, ABC):
    """A bandit over candidates. A subclass implements `_probabilities` and the hooks it needs.

    Random draws come from the `rng` of a call, or else from a generator made from `seed`.

    >>> import nextquery as nq
    >>> pool = nq.ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [2, 1], [0, 1]])
    >>> candidates = nq.MaxUtility(k=2).select(pool, [1, 0], exclude=[0])
    >>> policy = nq.LinUCB()
    >>> slate = policy.rank(candidates, nq.Context([1, 0]), m=2)
    >>> [pool.texts[choice.arm] for choice in slate]
    ['b', 'c']
    >>> policy.update(slate[1], 1.0)  # the second was clicked: it may come late, or be taken back
    >>> policy.correct(slate[1], 1.0, 0.0)
    """

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

    @property
    def needs_preferences(self) -> bool:
        """Whether it uses the value of a candidate's preference, and not only the order of them."""
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
        draws = None if rng is None else [rng]
        return self.rank_many([candidates], [context], [m], draws, exploration=exploration)[0]

    def rank_many(
        self,
        candidates: Sequence[Candidates],
        contexts: Sequence[Context],
        m: Sequence[int],
        rngs: Sequence[np.random.Generator] | None = None,
        *,
        exploration: float = 0.0,
    ) -> list[list[Choice]]:
        """Return one slate for each set of candidates: the same as `rank` for one after the other.

        A shared model scores all sets in one call.
        """
        for length in m:
            whole_number(length, "m", at_least=1)
        mix = number(exploration, "exploration", low=0, high=1)
        features = [self._features(*one) for one in zip(candidates, contexts, strict=True)]
        most = [length + _repeated(one) for length, one in zip(m, candidates, strict=True)]
        scores = self._leading_scores(candidates, features, most)
        draws = [self._rng] * len(candidates) if rngs is None else rngs
        return [
            self._slate(*one, mix)
            for one in zip(candidates, features, scores, m, draws, strict=True)
        ]

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

    def update(self, choice: Choice, reward: float, *, at: float | None = None) -> None:
        """Learn the reward of a choice, now or later, made by this policy or another copy.

        `at` is the Unix time of the decision; it matters to a policy with a half-life.
        """
        self.correct(choice, None, reward, at=at)

    def correct(
        self, choice: Choice, old: float | None, new: float | None, *, at: float | None = None
    ) -> None:
        """Replace the reward `old` of a choice with `new`; None means unobserved.

        Pass the `at` with which `old` was learnt, so that exactly what is left of it is removed.
        """
        before, after, time = checked_reward(old), checked_reward(new), checked_time(at)
        if before != after:
            self._correct_at(choice, before, after, time)

    def discount(self, examples: int) -> None:
        """Reduce the weight of everything learnt so far to `examples` examples, if it has more.

        This keeps a warm start from a long log from outweighing later clicks. It applies to models
        shared by all arms; a policy without one does not change.
        """
        self._discount(whole_number(examples, "examples", at_least=0))

    def not_below_zero(self, feature: int) -> None:
        """Set the weight of a feature to 0 if it is negative by less than its uncertainty.

        A short log may happen to show similar queries less often than chance. It applies to models
        shared by all arms.
        """
        for model in self._models():
            if isinstance(model, Ridge):
                model.not_below_zero(feature)

    def move_to(self, at: float) -> None:
        """Let what was learnt fade to a later time; without a half-life, nothing changes."""
        for model in self._models():
            model.move_to(at)

    def take_over(self, current: "Policy", base: "Policy") -> None:
        """Add what `current` has learnt since it was `base`, to what this policy has learnt.

        All three must learn from the same features (`learns`).
        """
        if not self.learns == current.learns == base.learns:
            raise InvalidInput(
                f"a policy that learns from {self.learns or 'nothing'!r} cannot take over what one "
                f"learnt from {current.learns or 'nothing'!r}."
            )
        models = zip(self._models(), current._models(), base._models(), strict=True)
        for mine, theirs, earlier in models:
            mine.take_over(theirs, earlier)

    def updates_since(self, base: "Policy") -> int:
        """Return the number of updates since this policy was `base`."""
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

    def _leading_scores(
        self, candidates: Sequence[Candidates], features: Sequence[Floats], m: Sequence[int]
    ) -> list[Floats]:
        """Return the scores of every set; −∞ may replace one that cannot tie with the m best."""
        return [self._scores(*one) for one in zip(candidates, features, strict=True)]

    def _estimates(self, features: Floats) -> tuple[Floats, Floats] | None:
        """Return mean and width for rows of features."""
        return None

    def _correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        """Learn; does nothing in a policy without a model."""
        return

    def _correct_at(
        self, choice: Choice, old: float | None, new: float | None, at: float | None
    ) -> None:
        """Learn an example from a known time; without a half-life, its time does not matter."""
        self._correct(choice, old, new)

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


def _repeated(candidates: Candidates) -> int:
    """Return how many candidates may be left out of a slate because another says the same."""
    if candidates.alike is None:
        return 0
    return sum(len(candidates) - len(set(row.tolist())) for row in candidates.alike.T)
