"""Slates and forecasts: the library's loop, applied to the state of the learner."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from nextquery.catalogue.catalogue import Place
from nextquery.errors import StoreUnavailable
from nextquery.loop import Loop, Slate, Visit
from nextquery.memory import Moment
from nextquery.selection import Candidates
from nextquery.selection.duplicates import best_first
from nextquery.service.answer.candidate_cache import Asked, CandidateCache, PoolChanged, Served
from nextquery.service.answer.experiment.assignment import Assignment, OfSession
from nextquery.service.answer.requests.kinds import ForecastRequest, RecommendRequest
from nextquery.service.answer.results import Considered, Forecast
from nextquery.service.answer.slate.entries import ToAnswer
from nextquery.service.answer.slate.maker import SlateMaker
from nextquery.service.answer.visits import visit_before
from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.store import Clock, StoredDecision
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.model.learner import Learner
from nextquery.service.settings import EngineOptions

_OFFERED = 1024  # slates kept in memory, for the features of a query that is typed instead
_POOL_S = 10.0  # how long a request waits for a pool that comes


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
        self.maker = SlateMaker(
            self.assignment, self._clock, repeat=self.options.repeat, offer=self._offer
        )
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
            return self.maker.slates(asked)

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
