"""Slates and forecasts: the library's loop, applied to the state of the learner."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nextquery.catalogue import Place
from nextquery.errors import StoreUnavailable
from nextquery.folding import best_first
from nextquery.loop import Loop, Slate, ToRank
from nextquery.memory import Moment
from nextquery.select import Candidates
from nextquery.service.answer.candidate_cache import Asked, CandidateCache, PoolChanged, Served
from nextquery.service.answer.experiment.assignment import Assignment, OfSession, Turn
from nextquery.service.answer.requests import ForecastRequest, RecommendRequest
from nextquery.service.answer.results import Considered, Forecast
from nextquery.service.answer.slate.entries import Entries, ToAnswer, drafted, own_asked
from nextquery.service.answer.visits import visit_before
from nextquery.service.log.clock import Clock
from nextquery.service.log.event_parts import (
    SlateEntry,
    bytes_text,
)
from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.store import StoredDecision
from nextquery.service.model.learner import Learner
from nextquery.service.model.served_catalogue import ServedCatalogue
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.service.settings.split import CONTROL
from nextquery.visit import Visit

_log = logging.getLogger("nextquery.service")
_OFFERED = 1024  # slates kept in memory, for the features of a query that is typed instead
_POOL_S = 10.0  # how long a request waits for a pool that comes
_FAILED = "the model failed; similarity answers instead"


class Answerer:
    """Makes slates and forecasts from the state of the learner."""

    def __init__(
        self,
        catalogue: ServedCatalogue,
        loop: Loop,
        learner: Learner,
        options: EngineOptions,
        clock: Clock,
        secret: str,
    ) -> None:
        self.learner, self.options, self._clock, self.lock = learner, options, clock, learner.lock
        self._secret = secret
        self.ready = threading.Event()  # whether the pool of the log is served
        self.ready.set()
        self.serve(catalogue, loop)
        self._offered: OrderedDict[str, Slate] = OrderedDict()

    def serve(self, catalogue: ServedCatalogue, loop: Loop) -> None:
        """Answer with these arms from now on."""
        self.assignment = Assignment(loop, self.learner, self._secret)
        self.entries = Entries(loop, repeat=self.options.repeat)
        self.served = Served(catalogue, loop, CandidateCache(loop, self.options.cache_size))

    def now(self) -> tuple[Served, int]:
        """Return what is served and the position of the model, once the pool of the log is."""
        if not self.ready.wait(_POOL_S):
            raise StoreUnavailable(
                "this worker does not have the pool that the log is at. GET /v1/operate says why."
            )
        with self.lock:
            return self.served, self.learner.state.model

    @property
    def catalogue(self) -> ServedCatalogue:
        """The arms that are served."""
        return self.served.catalogue

    @property
    def loop(self) -> Loop:
        """The loop over them."""
        return self.served.loop

    @property
    def cache(self) -> CandidateCache:
        """The sets of recent queries."""
        return self.served.cache

    def _check(self, served: Served | None) -> None:
        if served is not None and (served is not self.served or not self.ready.is_set()):
            raise PoolChanged

    @property
    def policy(self) -> str:
        """The main policy of the newest model in the log, whatever this worker's settings are."""
        model = self.learner.state.model_event
        assert model is not None
        return model.policy

    def select(
        self,
        places: Sequence[Place],
        visits: Sequence[Visit],
        normalise: Sequence[bool] | None = None,
        served: Served | None = None,
    ) -> list[Candidates]:
        """Return the candidates of every place in its session.

        `normalise` says for each whether the paper's preferences are asked for. `served` are the
        arms that the places are of.
        """
        catalogue, _, cache = self.served if served is None else served
        version, needed = catalogue.version, self.assignment.needs_preferences
        wanted = [needed or asked for asked in normalise or [False] * len(places)]
        return cache.select(list(map(Asked, places, visits, wanted)), version)

    def slate(
        self, request: RecommendRequest, place: Place, selected: Candidates, visit: Visit
    ) -> DecisionEvent:
        """Make a slate with the model as it is now, as a decision event."""
        return self.slates([ToAnswer(request, place, visit, selected)])[0]

    def slates(
        self, asked: Sequence[ToAnswer], served: Served | None = None
    ) -> list[DecisionEvent]:
        """Make several slates with one state of the model.

        If they were selected of `served`, and that is no longer served, raise `PoolChanged`.
        """
        with self.lock:
            self._check(served)
            on = self.learner.state.on
            turns = [self.assignment.turn(one.request) for one in asked]
            ranked = self._ranked(asked, [turn.answers for turn in turns] if on else [])
            partners = self._ranked(asked, list(map(self.assignment.partner, turns)) if on else [])
            empty = [self._empty(one) for one in asked]
            return [
                body if not on else self._filled(body, one, turn, slate, partner)
                for body, one, turn, slate, partner in zip(
                    empty, asked, turns, ranked, partners, strict=True
                )
            ]

    def _empty(self, asked: ToAnswer) -> DecisionEvent:
        request, place, visit, selected = asked
        state = self.learner.state
        return DecisionEvent(
            query=place.query,
            m=request.m,
            anchor_arm=place.arm,
            history=visit.history,
            seen=visit.seen,
            trial=visit.trial + 1,
            slate=(),
            policy="off",
            model=state.model,
            model_version=state.position,
            fallback=False,
            not_searched=selected.missing,
            at_least=request.at_least,
            own=own_asked(self.loop, place, visit),
            kept=self.loop.kept(place, visit, selected),
            segment=place.segment,
        )

    def _ranked(self, asked: Sequence[ToAnswer], policies: Sequence[str]) -> list[Slate | None]:
        """Rank together; None where no policy does, or similarity answers instead."""
        found: list[Slate | None] = [None] * len(asked)
        groups: dict[str, list[int]] = {}
        for number, policy in enumerate(policies):
            if policy and not asked[number].request.fallback:
                groups.setdefault(policy, []).append(number)
        for policy, numbers in groups.items():
            slates = self._together(self.assignment.loop_of(policy), [asked[n] for n in numbers])
            for number, slate in zip(numbers, slates, strict=True):
                found[number] = slate
        return found

    def _together(self, loop: Loop, asked: Sequence[ToAnswer]) -> Sequence[Slate | None]:
        try:
            return loop.rank_many([self._to_rank(one) for one in asked], self._now())
        except Exception:  # people get an answer even if the model is broken
            if len(asked) > 1:  # one of them must not take the others with it
                return [slate for one in asked for slate in self._together(loop, [one])]
            _log.exception(_FAILED)
        return [None]

    def _to_rank(self, asked: ToAnswer) -> ToRank:
        request, place, visit, selected = asked
        rng = self.loop.draws(request.session_id, visit.trial + 1)
        return ToRank(place, visit, selected, request.m, rng, request.at_least)

    def _filled(
        self,
        body: DecisionEvent,
        asked: ToAnswer,
        turn: Turn,
        slate: Slate | None,
        partner: Slate | None = None,
    ) -> DecisionEvent:
        request, place = asked.request, asked.place
        if slate is not None:
            try:
                pins = [choice.arm for choice in slate.choices if choice.pinned]
                loop = self.assignment.loop_of(turn.answers)
                entries = self.entries.by_policy(loop, slate, asked)
                above = self.entries.pinned(pins, place)
                if partner is not None:
                    return self._drafted(body, asked, turn, entries, partner, above)
                self._offer(request.decision_id, slate)
                return replace(
                    body,
                    slate=(*above, *entries),
                    policy=turn.answers,
                    assigned=turn.assigned if turn.fallen else "",
                    fallback=turn.fallen,
                    candidates=int((slate.candidates.arms >= 0).sum()),
                    failures=bytes_text(slate.failures),
                )
            except Exception:
                _log.exception(_FAILED)
        entries, candidates = self.entries.similar(asked)
        divided = len(self.learner.state.shares) > 1
        return replace(
            body,
            slate=entries,
            policy=CONTROL,
            assigned=turn.assigned if divided and turn.assigned != CONTROL else "",
            fallback=True,
            candidates=candidates,
        )

    def _drafted(
        self,
        body: DecisionEvent,
        asked: ToAnswer,
        turn: Turn,
        entries: Sequence[SlateEntry],
        partner: Slate,
        above: Sequence[SlateEntry],
    ) -> DecisionEvent:
        """Draft a slate from the rankings of two policies, below what is pinned."""
        other = self.assignment.partner(turn)
        rankings = (entries, self.entries.by_policy(self.assignment.loop_of(other), partner, asked))
        coins = self.assignment.coins(asked.request, body.trial)
        names, length = (turn.answers, other), asked.request.m - len(above)
        return replace(
            body,
            slate=(*above, *drafted(names, rankings, length, coins)),
            policy=" + ".join(names),
            assigned=turn.assigned,
            candidates=len(asked.selected),
        )

    def _now(self) -> Moment:
        return Moment(self._clock.now())

    def _offer(self, decision_id: str, slate: Slate) -> None:
        """Keep the candidates with their features, for a query that is typed instead."""
        if slate.failures:
            self._offered[decision_id] = slate
            while len(self._offered) > _OFFERED:
                self._offered.popitem(last=False)

    def forecast(
        self,
        request: ForecastRequest,
        place: Place,
        selected: Candidates,
        visit: Visit,
        served: Served | None = None,
    ) -> Forecast:
        """Return the most probable next queries; none while the switch is off."""
        with self.lock:
            self._check(served)
            position = self.learner.position
            if not self.learner.state.on:
                return Forecast([], 1.0, position, selected.missing)
            likely, other = self._loop_for(request).forecast(
                place,
                visit,
                selected,
                request.m,
                returns=request.returns,
                at_least=request.at_least,
                at=self._now(),
            )
            return Forecast(likely, other, position, selected.missing)

    def _loop_for(self, request: OfSession) -> Loop:
        return self.assignment.loop_of(self.assignment.turn(request).answers)

    def considered(
        self,
        request: OfSession,
        place: Place,
        selected: Candidates,
        visit: Visit,
        served: Served | None = None,
    ) -> Considered:
        """Return all candidates with their scores; none while the switch is off.

        A person's own queries that are not arms have no place on a map, so they are left out.
        """
        with self.lock:
            self._check(served)
            loop = self._loop_for(request)
            nobody, returns = visit._replace(person=None), loop.returns
            candidates, context = loop.candidates(
                place, nobody, selected, returns=returns, at=self._now()
            )
            if not self.learner.state.on:
                candidates = candidates.take(np.arange(0))
            scores = loop.learnt.expected(candidates, context)
            if self.loop.folding is not None:
                order = np.lexsort((candidates.arms, -scores))
                order = order[best_first(self.loop.folding.of(candidates)[order])]
                candidates, scores = candidates.take(order), scores[order]
            return Considered(candidates, selected, scores, self.learner.position)

    def offers(self, decision_id: str) -> bool:
        """Whether this worker still has the candidates of a decision."""
        with self.lock:
            return decision_id in self._offered

    def as_candidate(
        self, arm: int, decision: StoredDecision, person: str | None
    ) -> tuple[tuple[float, ...], bytes]:
        """Return the features of a candidate at a decision, empty if it was none.

        If the candidates are forgotten here, they are selected again, with what is known now, and
        their `failures` are returned too; a person's own past is used only if `person` is theirs.
        """
        with self.lock:
            slate, served = self._offered.get(decision.id), self.served
        if slate is None:
            place = served.catalogue.place(decision.body.query, decision.body.segment)
            visit = visit_before(decision)._replace(person=person)
            selected = self.select([place], [visit], served=served)[0]
        with self.lock:
            if slate is None and served is not self.served:
                return self.as_candidate(arm, decision, person)  # the pool was changed
            loop = self.assignment.loop_of(decision.body.policy)
            failures, policy = b"", loop.policy
            if slate is None:
                repeat, returns = loop.repeat, loop.returns
                candidates, context = loop.candidates(
                    place, visit, selected, repeat=repeat, returns=returns, at=Moment(decision.time)
                )
                rng = loop.draws(decision.session_id, decision.body.trial)
                failures = policy.failures(candidates, context, rng.spawn(1)[0])
            else:
                candidates, context = slate.candidates, slate.context
            choice = policy.as_choice(candidates, context, arm)
        return (() if choice is None else tuple(choice.features.tolist())), failures
