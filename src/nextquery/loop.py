"""One round of Algorithm 1: from a query to candidates, a slate or a forecast.

Library sessions, replay and the service all use this code, so the same history gives the same
answer in each.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from nextquery import calibration
from nextquery.arms.ids import NO_IDS
from nextquery.arms.pool import ArmPool
from nextquery.calibration import Fitted
from nextquery.catalogue import Catalogue, Place
from nextquery.memory import LiveMemory, Memory, with_memory, without
from nextquery.outcomes import Rewards
from nextquery.policies.base import Choice, Context, Floats, Policy
from nextquery.select.base import Candidates, Selector

HISTORY, SEEN = 20, 200  # how many of its newest queries and shown arms a session remembers


class Visit(NamedTuple):
    """The state of a session.

    `history` contains its earlier queries that are arms, `seen` the arms it was shown, `trial` the
    number of recommendations so far.
    """

    history: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    trial: int = 0

    def after(self, arm: int | None, shown: Iterable[int]) -> "Visit":
        """Return the session after a recommendation for a query (its arm, or None).

        >>> Visit().after(7, [8, 9]).after(7, [])
        Visit(history=(7,), seen=(8, 9), trial=2)
        """
        history = tuple(self.with_anchor(arm))[-HISTORY:]
        return Visit(history, (*self.seen, *shown)[-SEEN:], self.trial + 1)

    def with_anchor(self, arm: int | None) -> list[int]:
        """Return the session's arms, with the current query last if it is an arm."""
        if arm is None or self.history[-1:] == (arm,):
            return list(self.history)
        return [*self.history, arm]


@dataclass
class Learnt:
    """Everything learnt from users: the policy's model, its calibration and live sessions."""

    policy: Policy
    calibration: Fitted = field(default_factory=dict)
    live: LiveMemory = field(default_factory=LiveMemory)

    def asked(self, arm: int | None, history: Sequence[int]) -> None:
        """Record a query asked in a session with this history. Repeating it adds nothing."""
        if arm is not None and list(history[-1:]) != [arm]:
            self.live.add(arm, history)

    def correct(self, slate: Sequence[Choice], old: Rewards, new: Rewards) -> None:
        """Replace the rewards `old` of a slate's entries with `new`."""
        for example in replaced(slate, old, new):
            self.policy.correct(*example)


class Replaced(NamedTuple):
    """A recommendation whose reward `old` becomes `new`; None means unobserved."""

    choice: Choice
    old: float | None
    new: float | None


def replaced(slate: Sequence[Choice], old: Rewards, new: Rewards) -> list[Replaced]:
    """Return the entries of a slate whose rewards `old` become `new`, from the top."""
    observed = slate[: max(len(old), len(new))]
    return [Replaced(entry, _at(old, at), _at(new, at)) for at, entry in enumerate(observed)]


class Slate(NamedTuple):
    """Recommendations, best first, with the candidates and context they were chosen from."""

    choices: list[Choice]
    candidates: Candidates
    context: Context


class Likely(NamedTuple):
    """A next query with the probability that it comes next."""

    arm: int
    text: str
    probability: float


class Loop:
    """Recommends and forecasts. It keeps no session state: pass a `Visit` with each call.

    Parameters
    ----------
    catalogue : the arms and the blocked queries.
    selector : selects the candidates.
    learnt : the policy, its calibration and the live sessions.
    memory : memory of sessions, for a policy that needs one; its live part is that of `learnt`.
    exploration : share of entries drawn uniformly from the candidates.
    repeat : whether a session may be shown the same arm more than once.
    seed : seed of every random draw.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        selector: Selector,
        learnt: Learnt,
        memory: Memory,
        *,
        exploration: float = 0.0,
        repeat: bool = False,
        seed: int = 0,
    ) -> None:
        self.catalogue, self.selector, self.learnt = catalogue, selector, learnt
        self.memory, self.exploration, self.repeat, self.seed = memory, exploration, repeat, seed
        self.looks_further = True  # select more when everything selected was already shown

    def use(self, learnt: Learnt) -> None:
        """Recommend with another `learnt` from now on."""
        self.learnt, self.memory.live = learnt, learnt.live

    @property
    def pool(self) -> ArmPool:
        """The arms."""
        return self.catalogue.pool

    @property
    def policy(self) -> Policy:
        """The policy that ranks the candidates."""
        return self.learnt.policy

    def draws(self, session: str, trial: int) -> np.random.Generator:
        """Return the generator of one recommendation: it depends only on seed, session and trial.

        So workers, replays and restarts draw the same numbers.
        """
        name = int.from_bytes(hashlib.sha256(session.encode()).digest()[:8], "big")
        return np.random.default_rng([self.seed, name, trial])

    def select(
        self, places: Sequence[Place], rng: np.random.Generator | None = None
    ) -> list[Candidates]:
        """Select arms for every place in one scan; none for a query without a vector."""
        no_vectors = np.empty((0, self.pool.dim), np.float32)
        selected = [Candidates(NO_IDS, no_vectors, np.empty(0), np.empty(0))] * len(places)
        known = [number for number, place in enumerate(places) if place.vector.any()]
        if known:
            hidden = [self._hidden(places[number], Visit()) for number in known]
            matrix = np.stack([places[number].vector for number in known])
            results = self.selector.select_many(self.pool, matrix, hidden, rng)
            for number, candidates in zip(known, results, strict=True):
                selected[number] = candidates
        return selected

    def candidates(
        self,
        place: Place,
        visit: Visit,
        selected: Candidates,
        *,
        repeat: bool = True,
        before: int | None = None,
        only: int | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[Candidates, Context]:
        """Return what may be recommended for a query in a session, with the policy's context.

        Parameters
        ----------
        place, visit : the current query, and its session.
        selected : the result of `select` for it.
        repeat : whether arms the session was shown may come again; its own queries never do.
        before : use only the past sessions up to this position (see `Memory.recall`).
        only : an arm to include in any case, if the policy has features for it.
        rng : generator for selectors that draw at random.
        """
        hidden = self._hidden(place, visit._replace(seen=()) if repeat else visit)
        context = Context(place.vector, visit.history, visit.trial + 1)
        alive = self._alive(selected)
        candidates = self._with_memory(place, visit, alive, hidden, before, only)
        if not len(candidates) and len(selected) and self.looks_further and before is None:
            pool, vector = self.pool, place.vector
            further = self.selector.select(pool, vector, hidden, rng)
            candidates = self._with_memory(place, visit, further, hidden, before, only)
        return candidates, context

    def rank(
        self,
        place: Place,
        visit: Visit,
        selected: Candidates,
        m: int,
        rng: np.random.Generator,
    ) -> Slate:
        """Return a slate of up to m recommendations."""
        candidates, context = self.candidates(place, visit, selected, repeat=self.repeat, rng=rng)
        choices = self.policy.rank(candidates, context, m, rng, exploration=self.exploration)
        return Slate(choices, candidates, context)

    def expected(self, candidates: Candidates, context: Context) -> Floats:
        """Return the scores of a forecast: the policy's mean estimates, or else similarities."""
        estimates = self.policy.estimates(candidates, context)
        return candidates.similarities if estimates is None else estimates[0]

    def forecast(
        self, place: Place, visit: Visit, selected: Candidates, m: int
    ) -> tuple[list[Likely], float]:
        """Return the m likeliest next queries, and the probability of any other query."""
        candidates, context = self.candidates(place, visit, selected)
        scores = self.expected(candidates, context)
        probabilities = calibration.probability(self.learnt.calibration, scores)
        best = np.lexsort((candidates.arms, -scores, -probabilities))[:m]
        likely = [
            Likely(arm, self.catalogue.shown(arm), float(probabilities[at]))
            for arm, at in zip(candidates.arms[best].tolist(), best, strict=True)
        ]
        return likely, max(0.0, 1.0 - sum(entry.probability for entry in likely))

    def as_choice(
        self, arm: int, place: Place, visit: Visit, selected: Candidates
    ) -> Choice | None:
        """Return a typed arm as if it had been recommended; None if it has no features.

        If you have the slate, prefer `offered`: the memory may now include what the session did
        since. Without a memory, every arm has features, and they never change.
        """
        if not self.policy.needs_memory:
            rows, score = self.pool.rows([arm]), self.pool.score([arm], place.vector)
            alone = Candidates(np.array([arm]), rows, score, np.ones(1))
            context = Context(place.vector, visit.history, visit.trial + 1)
            return self.policy.as_choice(alone, context, arm)
        candidates, context = self.candidates(place, visit, selected, only=arm)
        return self.policy.as_choice(candidates, context, arm)

    def offered(self, arm: int, slate: Slate) -> Choice | None:
        """Return a typed arm with the features it had for a slate; None if not a candidate."""
        return self.policy.as_choice(slate.candidates, slate.context, arm)

    def _hidden(self, place: Place, visit: Visit) -> list[int]:
        """Return the arms not to recommend: blocked, the session's own, and those it was shown."""
        own = [] if place.arm is None else [place.arm]
        return sorted({*self.catalogue.blocked_arms(), *own, *visit.history, *visit.seen})

    def _alive(self, selected: Candidates) -> Candidates:
        """Drop the arms that were removed since they were selected."""
        alive = self.pool.alive(selected.arms)
        removed = len(alive) < len(selected)
        return selected.take(np.isin(selected.arms, alive)) if removed else selected

    def _with_memory(
        self,
        place: Place,
        visit: Visit,
        selected: Candidates,
        hidden: Sequence[int],
        before: int | None,
        only: int | None,
    ) -> Candidates:
        if not self.policy.needs_memory:
            visible = without(selected, hidden)
            if visible.vectors.shape[1] == self.pool.dim:
                return visible
            # Candidates from a cache may have no vectors.
            return replace(visible, vectors=self.pool.rows(visible.arms))
        return with_memory(
            selected,
            self.pool,
            place.vector,
            self.memory,
            visit.with_anchor(place.arm),
            running=place.arm is not None,
            hidden=hidden,
            before=before,
            only=only,
        )


def _at(rewards: Rewards, place: int) -> float | None:
    reward = rewards[place] if place < len(rewards) else None
    return None if reward is None else float(reward)
