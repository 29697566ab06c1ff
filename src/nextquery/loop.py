"""One round of Algorithm 1: from a query to candidates, a slate or a forecast.

The library's sessions, the replay of past ones and the service all come through here, so that the
same history gets the same answer from each.
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

HISTORY, SEEN = 20, 200  # newest queries of a session, and newest arms shown, that it remembers


class Visit(NamedTuple):
    """Where a session stands.

    `history` are its earlier queries that are arms, `seen` the arms it was shown, `trial` the
    number of recommendations so far.
    """

    history: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    trial: int = 0

    def after(self, arm: int | None, shown: Iterable[int]) -> "Visit":
        """The session after a recommendation for a query, an arm or None.

        >>> Visit().after(7, [8, 9]).after(7, [])
        Visit(history=(7,), seen=(8, 9), trial=2)
        """
        history = tuple(self.with_anchor(arm))[-HISTORY:]
        return Visit(history, (*self.seen, *shown)[-SEEN:], self.trial + 1)

    def with_anchor(self, arm: int | None) -> list[int]:
        """The session's arms, the query now running last where it is one."""
        if arm is None or self.history[-1:] == (arm,):
            return list(self.history)
        return [*self.history, arm]


@dataclass
class Learnt:
    """All that changes with what people do: the policy's model, its calibration, live sessions."""

    policy: Policy
    calibration: Fitted = field(default_factory=dict)
    live: LiveMemory = field(default_factory=LiveMemory)

    def asked(self, arm: int | None, history: Sequence[int]) -> None:
        """A query was asked in a session with this history; asking it again adds nothing."""
        if arm is not None and list(history[-1:]) != [arm]:
            self.live.add(arm, history)

    def correct(self, slate: Sequence[Choice], old: Rewards, new: Rewards) -> None:
        """Take the rewards `old` of a slate's entries back and put `new` in their place."""
        for place, choice in enumerate(slate[: max(len(old), len(new))]):
            self.policy.correct(choice, _at(old, place), _at(new, place))


class Slate(NamedTuple):
    """Recommendations, best first, and what they were chosen from."""

    choices: list[Choice]
    candidates: Candidates
    context: Context


class Likely(NamedTuple):
    """A next query with the probability that it comes next."""

    arm: int
    text: str
    probability: float


class Loop:
    """Answers from a pool and what was learnt. It keeps no sessions: a `Visit` comes with a call.

    Parameters
    ----------
    catalogue : the arms, and what is blocked.
    selector : how candidates are selected.
    learnt : the policy, its calibration and the live sessions.
    memory : of sessions, for a policy that needs one; its live part is that of `learnt`.
    exploration : share of entries drawn uniformly from the candidates.
    repeat : whether a session may be shown again what it was shown before.
    seed : of every random draw.
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
        self.looks_further = True  # beyond what was selected, when all of that was shown

    @property
    def pool(self) -> ArmPool:
        """The arms."""
        return self.catalogue.pool

    @property
    def policy(self) -> Policy:
        """How candidates are ranked."""
        return self.learnt.policy

    def draws(self, session: str, trial: int) -> np.random.Generator:
        """The random draws of one recommendation: they depend on who asks, not on who asked before.

        So workers, replays and restarts draw alike.
        """
        name = int.from_bytes(hashlib.sha256(session.encode()).digest()[:8], "big")
        return np.random.default_rng([self.seed, name, trial])

    def select(
        self, places: Sequence[Place], rng: np.random.Generator | None = None
    ) -> list[Candidates]:
        """The selected arms of every place, in one scan; nothing where a query has no vector."""
        nothing = np.empty((0, self.pool.dim), np.float32)
        found = [Candidates(NO_IDS, nothing, np.empty(0), np.empty(0))] * len(places)
        known = [number for number, place in enumerate(places) if place.vector.any()]
        if known:
            hidden = [self._hidden(places[number], Visit()) for number in known]
            matrix = np.stack([places[number].vector for number in known])
            many = self.selector.select_many(self.pool, matrix, hidden, rng)
            for number, candidates in zip(known, many, strict=True):
                found[number] = candidates
        return found

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
        """What may be recommended for a query in a session, with what the policy sees of it.

        Parameters
        ----------
        place, visit : the query now running, and its session.
        selected : what `select` found for it.
        repeat : whether what the session was shown may come again; its own queries never do.
        before : a place in the past sessions to look from (see `Memory.recall`).
        only : an arm to be among them in any case, if the policy can see it.
        rng : of a selection that draws.
        """
        hidden = self._hidden(place, visit._replace(seen=()) if repeat else visit)
        context = Context(place.vector, visit.history, visit.trial + 1)
        living = self._living(selected)
        candidates = self._with_memory(place, visit, living, hidden, before, only)
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
        """A slate of up to m recommendations."""
        candidates, context = self.candidates(place, visit, selected, repeat=self.repeat, rng=rng)
        choices = self.policy.rank(candidates, context, m, rng, exploration=self.exploration)
        return Slate(choices, candidates, context)

    def expected(self, candidates: Candidates, context: Context) -> Floats:
        """What a forecast goes by: the policy's estimate without any bonus, or the similarity."""
        estimates = self.policy.estimates(candidates, context)
        return candidates.similarities if estimates is None else estimates[0]

    def forecast(
        self, place: Place, visit: Visit, selected: Candidates, m: int
    ) -> tuple[list[Likely], float]:
        """The m likeliest next queries, and the probability of anything else."""
        candidates, context = self.candidates(place, visit, selected)
        scores = self.expected(candidates, context)
        each = calibration.probability(self.learnt.calibration, scores)
        best = np.lexsort((candidates.arms, -scores, -each))[:m]
        likely = [
            Likely(arm, self.catalogue.shown(arm), float(each[at]))
            for arm, at in zip(candidates.arms[best].tolist(), best, strict=True)
        ]
        return likely, max(0.0, 1.0 - sum(one.probability for one in likely))

    def as_choice(
        self, arm: int, place: Place, visit: Visit, selected: Candidates
    ) -> Choice | None:
        """An arm that was typed, as if it had been recommended; None if the policy cannot see it.

        Where the slate is at hand, `offered` is better: now may know what the session did since.
        A policy without a memory sees any arm, and the same at any time.
        """
        if not self.policy.needs_memory:
            rows, score = self.pool.rows([arm]), self.pool.score([arm], place.vector)
            alone = Candidates(np.array([arm]), rows, score, np.ones(1))
            context = Context(place.vector, visit.history, visit.trial + 1)
            return self.policy.as_choice(alone, context, arm)
        candidates, context = self.candidates(place, visit, selected, only=arm)
        return self.policy.as_choice(candidates, context, arm)

    def offered(self, arm: int, slate: Slate) -> Choice | None:
        """An arm that was typed, as the policy saw it beside a slate; None: it was no candidate."""
        return self.policy.as_choice(slate.candidates, slate.context, arm)

    def _hidden(self, place: Place, visit: Visit) -> list[int]:
        """What must not be recommended: blocked, the session's own, what it was shown."""
        own = [] if place.arm is None else [place.arm]
        return sorted({*self.catalogue.blocked_arms(), *own, *visit.history, *visit.seen})

    def _living(self, selected: Candidates) -> Candidates:
        """Less the arms that were removed since they were selected."""
        alive = self.pool.alive(selected.arms)
        gone = len(alive) < len(selected)
        return selected.take(np.isin(selected.arms, alive)) if gone else selected

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
            left = without(selected, hidden)
            if left.vectors.shape[1] == self.pool.dim:
                return left
            return replace(left, vectors=self.pool.rows(left.arms))  # a cache may leave them out
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
