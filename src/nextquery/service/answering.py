"""From a batch of requests to slates: one scan of the pool, then the model, one by one."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nextquery.policies import Choice, Context, MostSimilar
from nextquery.select import Candidates, MaxUtility
from nextquery.service import calibration
from nextquery.service.answers import Considered, Forecast, Likely
from nextquery.service.candidates import Recollection, plain, with_memory
from nextquery.service.catalogue import Anchor, Catalogue
from nextquery.service.learner import Learner
from nextquery.service.options import MEMORY, EngineOptions
from nextquery.service.requests import Asked
from nextquery.service.store import StoredDecision
from nextquery.service.warm import forecast_scores

_log = logging.getLogger("nextquery.service")
_OFFERED = 1024  # decisions of which all candidates are kept at hand
_HISTORY, _SEEN = 20, 200  # queries and shown arms of a session that a decision carries on


class Visit(NamedTuple):
    """Where a session stands: its earlier queries that are arms, and what it was shown."""

    history: list[int]
    seen: list[int]

    @classmethod
    def after(cls, last: StoredDecision | None) -> "Visit":
        """The session after its newest decision."""
        if last is None:
            return cls([], [])
        body = last.body
        history, anchor = body["history"], body["anchor_arm"]
        if anchor is not None and (not history or history[-1] != anchor):
            history = [*history, anchor]
        seen = [*body["seen"], *(entry["arm"] for entry in body["slate"])]
        return cls(history[-_HISTORY:], seen[-_SEEN:])

    def with_anchor(self, arm: int | None) -> list[int]:
        """The session's arms, the query now running last where it is one."""
        if arm is None or (self.history and self.history[-1] == arm):
            return list(self.history)
        return [*self.history, arm]


class Answerer:
    """Makes slates and forecasts from the learner's state; keeps a cache of candidate sets."""

    def __init__(
        self,
        learner: Learner,
        catalogue: Catalogue,
        recollection: Recollection,
        options: EngineOptions,
    ) -> None:
        self.learner, self.catalogue, self.options = learner, catalogue, options
        self.recollection, self.lock = recollection, learner.lock
        self.selector = MaxUtility(k=options.k)
        self.cache: OrderedDict[Any, Candidates] = OrderedDict()
        self._cached_version = -1
        self._offered: OrderedDict[str, Candidates] = OrderedDict()
        self.hits = self.misses = 0

    @property
    def policy(self) -> str:
        """The policy that the log says decides, whatever this worker's own settings are."""
        return str(self.learner.state.meta["policy"])

    def select(self, anchors: Sequence[Anchor]) -> list[Candidates]:
        """The candidates of every anchor; those not at hand share one scan of the pool."""
        with self.lock:
            version, blocked = self.catalogue.version, self.catalogue.blocked_arms()
        if version != self._cached_version:
            self.cache.clear()
            self._cached_version = version
        keys = [anchor.text if anchor.arm is None else anchor.arm for anchor in anchors]
        missing = {
            key: anchor
            for key, anchor in zip(keys, anchors, strict=True)
            if key not in self.cache and anchor.vector.any()
        }
        found: dict[Any, Candidates] = {key: self.cache[key] for key in keys if key in self.cache}
        self.hits += len(keys) - len(missing)
        self.misses += len(missing)
        if missing:
            hidden = [
                [*blocked, *([] if one.arm is None or one.arm in blocked else [one.arm])]
                for one in missing.values()
            ]
            matrix = np.stack([one.vector for one in missing.values()])
            many = self.selector.select_many(self.catalogue.pool, matrix, hidden)
            found |= dict(zip(missing, map(self._to_keep, many), strict=True))
        for key in keys:
            if key in found and not found[key].missing:  # what is partial now may be whole soon
                self.cache[key] = found[key]
                self.cache.move_to_end(key)
        while len(self.cache) > self.options.cache_size:
            self.cache.popitem(last=False)
        nothing = Candidates(
            np.empty(0, np.int64),
            np.empty((0, self.catalogue.pool.dim), np.float32),
            np.empty(0),
            np.empty(0),
        )
        return [found.get(key, nothing) for key in keys]

    def _to_keep(self, candidates: Candidates) -> Candidates:
        """What the cache holds: without the vectors, nine tenths of it, where nobody needs them."""
        if self.policy != MEMORY:
            return candidates
        nothing = np.empty((len(candidates), 0), np.float32)
        return replace(candidates, vectors=nothing)

    def slate(
        self, asked: Asked, anchor: Anchor, selected: Candidates, visit: Visit
    ) -> dict[str, Any]:
        """The body of a decision event, made with the model as it is now."""
        with self.lock:
            state, policy = self.learner.state, self.policy
            entries: list[dict[str, Any]] = []
            fallback, size = False, 0
            if not state.on:
                policy = "off"
            else:
                selected = self._living(selected)
                hidden = self._hidden(anchor, visit, shown=not self.options.repeat)
                entries, fallback, size = self._entries(asked, anchor, selected, visit, hidden)
                policy = "most-similar" if fallback else policy
            return {
                "query": anchor.query,
                "m": asked.m,
                "anchor_arm": anchor.arm,
                "history": visit.history,
                "seen": visit.seen,
                "trial": len(visit.with_anchor(anchor.arm)) or 1,
                "candidates": size,
                "slate": entries,
                "policy": policy,
                "model": state.model,
                "model_version": state.position,
                "fallback": fallback,
                "not_searched": selected.missing,
            }

    def _entries(
        self, asked: Asked, anchor: Anchor, selected: Candidates, visit: Visit, hidden: list[int]
    ) -> tuple[list[dict[str, Any]], bool, int]:
        rng = np.random.default_rng([self.options.seed, int(asked.decision_id, 16)])
        if not asked.fallback:
            try:
                candidates, context = self._candidates(anchor, selected, visit, hidden)
                self._offer(asked.decision_id, candidates)
                slate = self._ranked(asked.m, candidates, context, selected, rng)
                return slate, False, len(candidates)
            except Exception:  # whatever is wrong with the model, people get an answer
                _log.exception("the model failed; the most similar arms answer")
        left = plain(selected, hidden)
        context = Context(anchor.vector)
        alike = MostSimilar(top=1).rank(left, context, asked.m, rng)
        return [self._entry(choice, left, selected, None) for choice in alike], True, len(left)

    def _ranked(
        self,
        m: int,
        candidates: Candidates,
        context: Context,
        selected: Candidates,
        rng: np.random.Generator,
    ) -> list[dict[str, Any]]:
        policy = self.learner.state.policy
        assert policy is not None
        slate = policy.rank(candidates, context, m, rng, exploration=self.options.exploration)
        if not slate:
            return []
        said = policy.estimates(candidates, context)
        widths = dict.fromkeys(candidates.arms.tolist())
        if said is not None:
            widths = dict(zip(candidates.arms.tolist(), said[1].tolist(), strict=True))
        if not np.isfinite([choice.score for choice in slate]).all():
            raise FloatingPointError("the model's scores are not finite")
        return [self._entry(one, candidates, selected, widths[one.arm]) for one in slate]

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

    def forecast(self, anchor: Anchor, selected: Candidates, visit: Visit, m: int) -> Forecast:
        """The m likeliest next queries."""
        with self.lock:
            state = self.learner.state
            assert state.policy is not None
            hidden = self._hidden(anchor, visit, shown=False)
            candidates, context = self._candidates(anchor, self._living(selected), visit, hidden)
            scores = forecast_scores(state.policy, candidates, context)
            each = calibration.probability(state.calibration, scores)
            best = np.lexsort((candidates.arms, -scores, -each))[: m if state.on else 0]
            likely = [
                Likely(
                    int(candidates.arms[at]),
                    self.catalogue.shown(int(candidates.arms[at])),
                    float(each[at]),
                )
                for at in best
            ]
            other = max(0.0, 1.0 - sum(one.probability for one in likely))
            return Forecast(likely, other, state.position, selected.missing)

    def considered(self, anchor: Anchor, selected: Candidates, visit: Visit) -> Considered:
        """All candidates with what is believed of them now; empty while the switch is off."""
        with self.lock:
            state = self.learner.state
            assert state.policy is not None
            selected = self._living(selected if state.on else selected.take(np.arange(0)))
            hidden = self._hidden(anchor, visit, shown=False)
            candidates, context = self._candidates(anchor, selected, visit, hidden)
            if not state.on:
                candidates = candidates.take(np.arange(0))
            scores = forecast_scores(state.policy, candidates, context)
            return Considered(candidates, selected, scores, state.position)

    def _offer(self, decision_id: str, candidates: Candidates) -> None:
        """Keep what the model saw, in case that one of these is what will be typed."""
        if self.policy == MEMORY:
            self._offered[decision_id] = candidates
            while len(self._offered) > _OFFERED:
                self._offered.popitem(last=False)

    def features_of(self, arm: int, decision: StoredDecision) -> list[float]:
        """What the model saw of one arm at a decision; or would see now, where that is forgotten.

        Now may know what the session did since, so what it saw then is better.
        """
        offered = self._offered.get(decision.id)
        if offered is not None and len(place := np.flatnonzero(offered.arms == arm)):
            return [float(value) for value in offered.vectors[place[0]]]
        anchor = self.catalogue.anchor(decision.body["query"])
        visit = Visit(decision.body["history"], [])
        selected = self.select([anchor])[0]
        with self.lock:
            policy = self.learner.state.policy
            assert policy is not None
            candidates, context = self._candidates(anchor, selected, visit, [], only=arm)
            choice = policy.as_choice(candidates, context, arm)
            return [] if choice is None else [float(value) for value in choice.features]

    def _hidden(self, anchor: Anchor, visit: Visit, *, shown: bool) -> list[int]:
        """What must not be recommended: blocked, the session's own, what it was shown."""
        own = [] if anchor.arm is None else [anchor.arm]
        seen = visit.seen if shown else []
        return [*self.catalogue.blocked_arms(), *own, *visit.history, *seen]

    def _living(self, selected: Candidates) -> Candidates:
        """Less the arms that were removed since they were selected."""
        alive = self.catalogue.pool.alive(selected.arms)
        gone = len(alive) < len(selected)
        return selected.take(np.isin(selected.arms, alive)) if gone else selected

    def _candidates(
        self,
        anchor: Anchor,
        selected: Candidates,
        visit: Visit,
        hidden: list[int],
        only: int | None = None,
    ) -> tuple[Candidates, Context]:
        history = visit.with_anchor(anchor.arm)
        context = Context(anchor.vector, tuple(visit.history), len(history) or 1)
        if self.policy != MEMORY:
            return plain(selected, hidden), context
        candidates = with_memory(
            selected,
            self.catalogue.pool,
            anchor.vector.tolist(),
            self.recollection,
            history,
            running=anchor.arm is not None,
            hidden=hidden,
            only=only,
        )
        return candidates, context
