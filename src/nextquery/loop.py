"""One round of Algorithm 1: from a query to candidates, a slate or a forecast.

Library sessions, replay and the service all use this code, so the same history gives the same
answer in each.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nextquery.catalogue.catalogue import Catalogue, Place
from nextquery.gathering import Gathering
from nextquery.learnt import Learnt
from nextquery.memory import NOW, Memory, Moment, without
from nextquery.policies.packed import Choice, Context
from nextquery.segments import text_of
from nextquery.selection.duplicates import Folding, best_first
from nextquery.selection.schedule import Schedule
from nextquery.selection.selector import Candidates, Selector
from nextquery.visit import Visit


class Slate(NamedTuple):
    """Recommendations, best first, with the candidates and context they were chosen from.

    `failures` is what the policy would learn if every candidate failed.
    """

    choices: list[Choice]
    candidates: Candidates
    context: Context
    failures: bytes = b""


class ToRank(NamedTuple):
    """A slate that is wanted: see `Loop.rank`."""

    place: Place
    visit: Visit
    selected: Candidates
    m: int
    rng: np.random.Generator
    at_least: float


class Offered(NamedTuple):
    """What a slate is drawn from: its `candidates`, those of them that are `ranked`, and pins."""

    candidates: Candidates
    ranked: Candidates
    context: Context
    pinned: Sequence[int]


class Likely(NamedTuple):
    """A next query with the probability that it comes next."""

    arm: int
    text: str
    probability: float


class Loop(Gathering):
    """Recommends and forecasts. It keeps no session state: pass a `Visit` with each call.

    Parameters
    ----------
    catalogue : the arms and the blocked queries.
    selector : selects the candidates.
    learnt : the policy, its calibration and the live sessions.
    memory : memory of sessions, for a policy that needs one; its live part is that of `learnt`.
    exploration : share of entries drawn uniformly from the candidates.
    repeat : whether a session may be shown the same arm more than once.
    returns : whether a session may be recommended its own earlier queries.
    fold_similar : whether a slate or a forecast shows only one of several queries that say the
        same in another form; see `nextquery.selection.duplicates`.
    recommend_at_least : recommend nothing less probable than this, by the calibrated probability
        that a forecast has; 0: anything.
    schedule, reselect : how the candidate set of a session grows; see `Selecting`.
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
        returns: bool = False,
        fold_similar: bool = False,
        recommend_at_least: float = 0.0,
        schedule: Schedule | None = None,
        reselect: bool | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(
            catalogue,
            selector,
            learnt,
            memory,
            schedule=schedule,
            reselect=reselect,
            repeat=repeat,
            seed=seed,
        )
        self.exploration, self.returns = exploration, returns
        self.recommend_at_least = recommend_at_least
        self.folding = Folding(catalogue) if fold_similar else None

    def use(self, learnt: Learnt) -> None:
        """Recommend with another `learnt` from now on."""
        self.learnt, self.memory.live, self.memory.people = learnt, learnt.live, learnt.people

    def beside(self, learnt: Learnt, *, exploration: float | None = None) -> "Loop":
        """Return a loop with the same arms and memory that ranks by another `learnt`."""
        twin = copy(self)
        twin.learnt = learnt
        if exploration is not None:
            twin.exploration = exploration
        return twin

    @property
    def fold_similar(self) -> bool:
        """Whether a slate shows only one of several queries that say the same."""
        return self.folding is not None

    def folded(self, candidates: Candidates) -> Candidates:
        """Return candidates that know which of them say the same, if that matters."""
        if self.folding is None or not len(candidates):
            return candidates
        return replace(candidates, alike=self.folding.of(candidates))

    def rank(
        self,
        place: Place,
        visit: Visit,
        selected: Candidates,
        m: int,
        rng: np.random.Generator,
        at: Moment = NOW,
        *,
        at_least: float | None = None,
    ) -> Slate:
        """Return a slate of up to m recommendations, each with a probability of `at_least` or more.

        `at_least` is `recommend_at_least` unless it is given. Candidates below it are not ranked,
        so the propensities are those of a choice among the others. All candidates stay in the
        slate: once the next query is known, every one of them was answered.
        """
        least = self.recommend_at_least if at_least is None else at_least
        return self.rank_many([ToRank(place, visit, selected, m, rng, least)], at)[0]

    def rank_many(self, asked: Sequence["ToRank"], at: Moment = NOW) -> list[Slate]:
        """Return one slate each, as `rank` does; the policy ranks them together."""
        offered = [self.offered(one, at) for one in asked]
        slates = self.policy.rank_many(
            [one.ranked for one in offered],
            [one.context for one in offered],
            [max(1, one.m - len(its.pinned)) for one, its in zip(asked, offered, strict=True)],
            [one.rng for one in asked],
            exploration=self.exploration,
        )
        # Their own draws: what is learnt must not depend on the length of the slate.
        return [
            Slate(
                [*self.pinned(one.place, its.pinned), *choices][: one.m],
                its.candidates,
                its.context,
                self.policy.failures(its.candidates, its.context, one.rng.spawn(1)[0]),
            )
            for one, choices, its in zip(asked, slates, offered, strict=True)
        ]

    def offered(self, asked: "ToRank", at: Moment = NOW) -> "Offered":
        """Return what a slate is drawn from."""
        candidates, context = self.candidates(
            asked.place,
            asked.visit,
            asked.selected,
            repeat=self.repeat,
            returns=self.returns,
            at=at,
        )
        pinned = self.catalogue.pinned(asked.place)[: asked.m]
        if pinned:
            candidates = without(candidates, pinned)
        worthy = candidates
        if asked.at_least > 0:
            probable = self.learnt.probabilities(candidates, context) >= asked.at_least
            worthy = candidates.take(probable)
        return Offered(candidates, self.folded(worthy), context, pinned)

    def pinned(self, place: Place, arms: Sequence[int]) -> list[Choice]:
        """Return the entries of pinned arms; nobody drew them, so their propensity is 1."""
        scores = self.pool.score(arms, place.vector).tolist() if len(arms) else []
        return [
            Choice(arm, np.empty(0), score, 1.0, pinned=True)
            for arm, score in zip(arms, scores, strict=True)
        ]

    def forecast(
        self,
        place: Place,
        visit: Visit,
        selected: Candidates,
        m: int,
        *,
        returns: bool = True,
        at_least: float = 0.0,
        at: Moment = NOW,
    ) -> tuple[list[Likely], float]:
        """Return the m likeliest next queries, and the probability of any other query.

        With `returns`, the session's own earlier queries are among them. Queries less probable than
        `at_least` are not.
        """
        candidates, context = self.candidates(place, visit, selected, returns=returns, at=at)
        most = m if self.folding is None else len(candidates)
        found = self.learnt.likeliest(candidates, context, most)
        if self.folding is not None:
            arms = np.array([arm for arm, _ in found], np.int64)
            shown = best_first(self.folding.of_arms(arms, candidates.own_texts))
            found = [one for one, kept in zip(found, shown.tolist(), strict=True) if kept][:m]
        likely = [
            Likely(arm, self.text_of(arm, candidates), probability)
            for arm, probability in found
            if probability >= at_least
        ]
        return likely, max(0.0, 1.0 - sum(entry.probability for entry in likely))

    def text_of(self, arm: int, candidates: Candidates) -> str:
        """Return the text of a candidate as shown to its user."""
        return self.catalogue.shown(arm) if arm >= 0 else text_of(candidates.own_texts[arm])

    def success(
        self, arm: int | None, slate: Sequence[Choice], candidates: Candidates, context: Context
    ) -> Choice | None:
        """Return the query that came next, with the features it had; None if not a candidate."""
        shown = next((choice for choice in slate if choice.arm == arm), None)
        return shown or self.policy.as_choice(candidates, context, arm)

    def typed_arm(self, place: Place, person: str | None) -> int | None:
        """Return the id of a typed query: its arm, or the id that its owner knows it by."""
        past = None if person is None else self.memory.people.of(person)
        known = None if past is None else past.queries.get(place.text)
        return place.arm if place.arm is not None or known is None else -1 - known.number

    def asked(self, place: Place, visit: Visit, time: float) -> None:
        """Record the current query of a session, for everybody and for its owner."""
        self.learnt.asked(place.arm, visit.history, time)
        key = self.own_key(place)
        if visit.person is not None and key is not None:
            vector = None if place.arm is not None else place.vector
            self.learnt.asked_by(visit.person, key, time=time, vector=vector, after=visit.previous)
