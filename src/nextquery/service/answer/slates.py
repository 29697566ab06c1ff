"""From a batch of requests to slates: the library's loop, with a cache of what it selected."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nextquery.catalogue import Place
from nextquery.loop import Loop, Slate, Visit
from nextquery.memory import without
from nextquery.policies import Choice, Context, MostSimilar
from nextquery.select import Candidates
from nextquery.service.answer.requests import Asked
from nextquery.service.answer.results import Considered, Forecast
from nextquery.service.log.store import StoredDecision
from nextquery.service.model.learner import Learner
from nextquery.service.settings.engine_options import EngineOptions

_log = logging.getLogger("nextquery.service")
_OFFERED = 1024  # slates kept at hand, in case that a query typed instead is among the candidates
FALLBACK = "most-similar-first"


def visit_of(last: StoredDecision | None) -> Visit:
    """Where a session stands after its newest decision."""
    if last is None:
        return Visit()
    return visit_before(last).after(last.body["anchor_arm"], _arms_of(last.body))


def visit_before(decision: StoredDecision) -> Visit:
    """Where a session stood when a decision was made."""
    body = decision.body
    return Visit(tuple(body["history"]), tuple(body["seen"]), body.get("trial", 1) - 1)


class Answerer:
    """Makes slates and forecasts from the learner's state; keeps a cache of candidate sets."""

    def __init__(self, loop: Loop, learner: Learner, options: EngineOptions) -> None:
        self.loop, self.learner, self.options = loop, learner, options
        self.catalogue, self.lock = loop.catalogue, learner.lock
        self.cache: OrderedDict[Any, Candidates] = OrderedDict()
        self._cached_version = -1
        self._offered: OrderedDict[str, Slate] = OrderedDict()
        self.hits = self.misses = 0

    @property
    def policy(self) -> str:
        """The policy that the log says decides, whatever this worker's own settings are."""
        return str(self.learner.state.meta["policy"])

    def select(self, places: Sequence[Place]) -> list[Candidates]:
        """The candidates of every place; those not at hand share one scan of the pool."""
        with self.lock:
            version = self.catalogue.version
        if version != self._cached_version:
            self.cache.clear()
            self._cached_version = version
        keys = [place.text if place.arm is None else place.arm for place in places]
        missing = {k: p for k, p in zip(keys, places, strict=True) if k not in self.cache}
        found = {key: self.cache[key] for key in keys if key in self.cache}
        self.hits += len(keys) - len(missing)
        self.misses += len(missing)
        many = self.loop.select(list(missing.values()))
        found |= dict(zip(missing, map(self._to_keep, many), strict=True))
        for key in keys:
            if not found[key].missing:  # what is partial now may be whole soon
                self.cache[key] = found[key]
                self.cache.move_to_end(key)
        while len(self.cache) > self.options.cache_size:
            self.cache.popitem(last=False)
        return [found[key] for key in keys]

    def _to_keep(self, candidates: Candidates) -> Candidates:
        """What the cache holds: without the vectors, nine tenths of it, where nobody needs them."""
        if not self.loop.policy.needs_memory:
            return candidates
        return replace(candidates, vectors=np.empty((len(candidates), 0), np.float32))

    def slate(
        self, asked: Asked, place: Place, selected: Candidates, visit: Visit
    ) -> dict[str, Any]:
        """The body of a decision event, made with the model as it is now."""
        with self.lock:
            state, policy = self.learner.state, self.policy
            entries: list[dict[str, Any]] = []
            fallback, size = False, 0
            if not state.on:
                policy = "off"
            else:
                entries, fallback, size = self._entries(asked, place, selected, visit)
                policy = FALLBACK if fallback else policy
            return {
                "query": place.query,
                "m": asked.m,
                "anchor_arm": place.arm,
                "history": list(visit.history),
                "seen": list(visit.seen),
                "trial": visit.trial + 1,
                "candidates": size,
                "slate": entries,
                "policy": policy,
                "model": state.model,
                "model_version": state.position,
                "fallback": fallback,
                "not_searched": selected.missing,
            }

    def _entries(
        self, asked: Asked, place: Place, selected: Candidates, visit: Visit
    ) -> tuple[list[dict[str, Any]], bool, int]:
        rng = self.loop.draws(asked.session_id, visit.trial + 1)
        if not asked.fallback:
            try:
                slate = self.loop.rank(place, visit, selected, asked.m, rng)
                entries = self._described(slate, selected)
                self._offer(asked.decision_id, slate)
                return entries, False, len(slate.candidates)
            except Exception:  # whatever is wrong with the model, people get an answer
                _log.exception("the model failed; the most similar arms answer")
        hidden = {place.arm, *visit.history, *([] if self.options.repeat else visit.seen)}
        hidden |= {*self.catalogue.blocked_arms(), *self.catalogue.pool.removed.tolist()}
        left = without(selected, (arm for arm in hidden if arm is not None))
        alike = MostSimilar(top=1).rank(left, Context(place.vector), asked.m, rng)
        return [self._entry(choice, left, selected, None) for choice in alike], True, len(left)

    def _offer(self, decision_id: str, slate: Slate) -> None:
        """Keep what a memory said then; vectors say the same at any time."""
        if self.loop.policy.needs_memory:
            self._offered[decision_id] = slate
            while len(self._offered) > _OFFERED:
                self._offered.popitem(last=False)

    def _described(self, slate: Slate, selected: Candidates) -> list[dict[str, Any]]:
        chosen, candidates = slate.choices, slate.candidates
        if not np.isfinite([choice.score for choice in chosen]).all():
            raise FloatingPointError("the model's scores are not finite")
        shown = candidates.take(np.isin(candidates.arms, [choice.arm for choice in chosen]))
        estimates = self.loop.policy.estimates(shown, slate.context)
        widths: dict[int, float] = {}
        if estimates is not None:
            widths = dict(zip(shown.arms.tolist(), estimates[1].tolist(), strict=True))
        return [self._entry(one, shown, selected, widths.get(one.arm)) for one in chosen]

    def _entry(
        self, choice: Choice, candidates: Candidates, selected: Candidates, width: float | None
    ) -> dict[str, Any]:
        place = np.flatnonzero(selected.arms == choice.arm)
        at = int(np.flatnonzero(candidates.arms == choice.arm)[0])
        return {
            "arm": choice.arm,
            "text": self.catalogue.shown(choice.arm),
            "score": choice.score,
            "propensity": choice.propensity,
            "propensity_estimated": choice.propensity_estimated,
            "similarity": float(candidates.similarities[at]),
            "preference": float(selected.preferences[place[0]]) if len(place) else None,
            "uncertainty": width,
            "features": choice.features.tolist(),
        }

    def forecast(self, place: Place, selected: Candidates, visit: Visit, m: int) -> Forecast:
        """The m likeliest next queries; none while the switch is off."""
        with self.lock:
            position = self.learner.position
            if not self.learner.state.on:
                return Forecast([], 1.0, position, selected.missing)
            likely, other = self.loop.forecast(place, visit, selected, m)
            return Forecast(likely, other, position, selected.missing)

    def considered(self, place: Place, selected: Candidates, visit: Visit) -> Considered:
        """All candidates with what is believed of them now; empty while the switch is off."""
        with self.lock:
            candidates, context = self.loop.candidates(place, visit, selected)
            if not self.learner.state.on:
                candidates = candidates.take(np.arange(0))
            scores = self.loop.expected(candidates, context)
            return Considered(candidates, selected, scores, self.learner.position)

    def features_of(self, arm: int, decision: StoredDecision) -> list[float]:
        """What the model saw of an arm at a decision; what it sees now, where that is forgotten."""
        with self.lock:
            slate = self._offered.get(decision.id)
            choice = None if slate is None else self.loop.offered(arm, slate)
        if choice is None:
            place = self.catalogue.place(decision.body["query"])
            selected = self.select([place])[0]
            with self.lock:
                choice = self.loop.as_choice(arm, place, visit_before(decision), selected)
        return [] if choice is None else choice.features.tolist()


def _arms_of(body: dict[str, Any]) -> list[int]:
    return [entry["arm"] for entry in body["slate"]]
