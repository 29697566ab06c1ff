"""Slates and forecasts: the library's loop, applied to the state of the learner."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nextquery.catalogue import Place
from nextquery.loop import Loop, Slate, Visit
from nextquery.memory import without
from nextquery.policies import Choice, Context, MostSimilar
from nextquery.select import Candidates
from nextquery.service.answer.candidate_cache import CandidateCache
from nextquery.service.answer.requests import RecommendRequest
from nextquery.service.answer.results import Considered, Forecast
from nextquery.service.log.events import DecisionEvent, SlateEntry
from nextquery.service.log.store import StoredDecision
from nextquery.service.model.learner import Learner
from nextquery.service.settings.engine_options import EngineOptions

_log = logging.getLogger("nextquery.service")
_OFFERED = 1024  # slates kept in memory, for the features of a query that is typed instead
FALLBACK = "most-similar-first"


def visit_of(last: StoredDecision | None) -> Visit:
    """Return the state of a session after its newest decision."""
    if last is None:
        return Visit()
    return visit_before(last).after(last.body.anchor_arm, last.body.arms)


def visit_before(decision: StoredDecision) -> Visit:
    """Return the state of a session just before a decision."""
    body = decision.body
    return Visit(body.history, body.seen, body.trial - 1)


class Answerer:
    """Makes slates and forecasts from the state of the learner."""

    def __init__(self, loop: Loop, learner: Learner, options: EngineOptions) -> None:
        self.loop, self.learner, self.options = loop, learner, options
        self.catalogue, self.lock = loop.catalogue, learner.lock
        self.cache = CandidateCache(loop, options.cache_size)
        self._offered: OrderedDict[str, Slate] = OrderedDict()

    @property
    def policy(self) -> str:
        """The policy of the newest model in the log, whatever this worker's settings are."""
        model = self.learner.state.model_event
        assert model is not None
        return model.policy

    def select(self, places: Sequence[Place]) -> list[Candidates]:
        """Return the candidates of every place."""
        with self.lock:
            version = self.catalogue.version
        return self.cache.select(places, version)

    def slate(
        self, request: RecommendRequest, place: Place, selected: Candidates, visit: Visit
    ) -> DecisionEvent:
        """Make a slate with the model as it is now, as a decision event."""
        with self.lock:
            state = self.learner.state
            empty = DecisionEvent(
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
            )
            return self._filled(empty, request, place, selected, visit) if state.on else empty

    def _filled(
        self,
        body: DecisionEvent,
        request: RecommendRequest,
        place: Place,
        selected: Candidates,
        visit: Visit,
    ) -> DecisionEvent:
        rng = self.loop.draws(request.session_id, visit.trial + 1)
        if not request.fallback:
            try:
                slate = self.loop.rank(place, visit, selected, request.m, rng)
                entries = self._described(slate, selected)
                self._offer(request.decision_id, slate)
                size = len(slate.candidates)
                return replace(body, slate=entries, policy=self.policy, candidates=size)
            except Exception:  # people get an answer even if the model is broken
                _log.exception("the model failed; similarity answers instead")
        hidden = {place.arm, *visit.history, *([] if self.options.repeat else visit.seen)}
        hidden |= {*self.catalogue.blocked_arms(), *self.catalogue.pool.removed.tolist()}
        left = without(selected, (arm for arm in hidden if arm is not None))
        similar = MostSimilar(top=1).rank(left, Context(place.vector), request.m, rng)
        entries = tuple(self._entry(choice, left, selected, None) for choice in similar)
        return replace(body, slate=entries, policy=FALLBACK, fallback=True, candidates=len(left))

    def _offer(self, decision_id: str, slate: Slate) -> None:
        """Keep the features that came from a memory; those of vectors can be computed later."""
        if self.loop.policy.needs_memory:
            self._offered[decision_id] = slate
            while len(self._offered) > _OFFERED:
                self._offered.popitem(last=False)

    def _described(self, slate: Slate, selected: Candidates) -> tuple[SlateEntry, ...]:
        choices, candidates = slate.choices, slate.candidates
        if not np.isfinite([choice.score for choice in choices]).all():
            raise FloatingPointError("the model's scores are not finite")
        shown = candidates.take(np.isin(candidates.arms, [choice.arm for choice in choices]))
        estimates = self.loop.policy.estimates(shown, slate.context)
        widths: dict[int, float] = {}
        if estimates is not None:
            widths = dict(zip(shown.arms.tolist(), estimates[1].tolist(), strict=True))
        return tuple(
            self._entry(choice, shown, selected, widths.get(choice.arm)) for choice in choices
        )

    def _entry(
        self, choice: Choice, candidates: Candidates, selected: Candidates, width: float | None
    ) -> SlateEntry:
        place = np.flatnonzero(selected.arms == choice.arm)
        at = int(np.flatnonzero(candidates.arms == choice.arm)[0])
        return SlateEntry(
            arm=choice.arm,
            text=self.catalogue.shown(choice.arm),
            score=choice.score,
            propensity=choice.propensity,
            propensity_estimated=choice.propensity_estimated,
            similarity=float(candidates.similarities[at]),
            preference=float(selected.preferences[place[0]]) if len(place) else None,
            uncertainty=width,
            features=tuple(choice.features.tolist()),
        )

    def forecast(self, place: Place, selected: Candidates, visit: Visit, m: int) -> Forecast:
        """Return the m most probable next queries; none while the switch is off."""
        with self.lock:
            position = self.learner.position
            if not self.learner.state.on:
                return Forecast([], 1.0, position, selected.missing)
            likely, other = self.loop.forecast(place, visit, selected, m)
            return Forecast(likely, other, position, selected.missing)

    def considered(self, place: Place, selected: Candidates, visit: Visit) -> Considered:
        """Return all candidates with their scores; none while the switch is off."""
        with self.lock:
            candidates, context = self.loop.candidates(place, visit, selected)
            if not self.learner.state.on:
                candidates = candidates.take(np.arange(0))
            scores = self.loop.expected(candidates, context)
            return Considered(candidates, selected, scores, self.learner.position)

    def features_of(self, arm: int, decision: StoredDecision) -> tuple[float, ...]:
        """Return the features of an arm at a decision; today's, if those are forgotten."""
        with self.lock:
            slate = self._offered.get(decision.id)
            choice = None if slate is None else self.loop.offered(arm, slate)
        if choice is None:
            place = self.catalogue.place(decision.body.query)
            selected = self.select([place])[0]
            with self.lock:
                choice = self.loop.as_choice(arm, place, visit_before(decision), selected)
        return () if choice is None else tuple(choice.features.tolist())
