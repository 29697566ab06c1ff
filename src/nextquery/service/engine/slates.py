"""Slates and forecasts: the library's loop, applied to the state of the learner.

An entry of a slate comes from a policy, from two policies, from a pin, or from similarity alone.
Each session has its policy; if that fails, the slate uses similarity alone. The state of a
session comes from its newest decision in the log.

Candidate sets of recent queries are cached, so that a repeated query needs no scan of the pool.
Example queries to start from are common queries of the pool, each on a different subject.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from nextquery.catalogue.catalogue import Catalogue, Place
from nextquery.errors import StoreUnavailable
from nextquery.experiments.assignment import team_draft
from nextquery.loop import Loop, SessionState, Slate, ToRank
from nextquery.memory import Moment, without
from nextquery.policies import Choice, Context, MostSimilar
from nextquery.selection import Candidates
from nextquery.selection.duplicates import DuplicateKeys, best_first
from nextquery.service.engine.experiments import Assignment, OfSession, Turn
from nextquery.service.engine.requests import (
    Considered,
    Forecast,
    ForecastRequest,
    RecommendRequest,
)
from nextquery.service.log import events
from nextquery.service.log.store import Clock, StoredDecision
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.model.learner import Learner
from nextquery.service.settings import CONTROL, EngineOptions

Key = tuple[str | int, int | None]
"""The query (its arm, or its text) and the size of its set."""
Name = TypeVar("Name", bound=Hashable)


class PoolChanged(Exception):
    """What was selected is of a pool that is not served any more: it must be selected again."""


class CandidateRequest(NamedTuple):
    """A query whose candidates are wanted, with the paper's preferences or without."""

    place: Place
    session_state: SessionState
    normalise: bool = False


class CandidateCache:
    """Selects candidates, and keeps the newest `size` sets until the arms change.

    A set with the paper's preferences serves every request; one without is replaced by one with
    them when a request asks for them.

    Nothing is kept if a set depends on more than its query: with a random selection, and if
    sessions keep their sets.
    """

    def __init__(self, loop: Loop, size: int) -> None:
        self._loop, self._size = loop, size
        self._sets: OrderedDict[Key, Candidates] = OrderedDict()
        self._version, self._lock = -1, threading.Lock()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._sets)

    def clear(self) -> None:
        """Forget every set."""
        self._sets.clear()

    def select(self, asked: Sequence[CandidateRequest], version: int) -> list[Candidates]:
        """Return the candidates of every place; those not cached share a scan of the pool.

        `version` is that of the catalogue: another one empties the cache.
        """
        if not self._loop.reusable:
            self.misses += len(asked)
            found = self._selected(dict(enumerate(asked)))
            return [found[number] for number in range(len(asked))]
        keys = [self._key(place, session_state) for place, session_state, _ in asked]
        missing: dict[Key, CandidateRequest] = {}
        with self._lock:
            if version != self._version:
                self.clear()
                self._version = version
            for key, one in zip(keys, asked, strict=True):
                known = self._sets.get(key)
                if known is None or (one.normalise and not known.normalised):
                    both = one.normalise or _normalise(missing.get(key))
                    missing[key] = one._replace(normalise=both)
            sets = {key: self._sets[key] for key in keys if key in self._sets}
            self.hits += len(keys) - len(missing)
            self.misses += len(missing)
        sets |= self._selected(missing)
        with self._lock:
            for key in keys if version == self._version else ():
                if not sets[key].missing:  # a partial set may be complete soon
                    self._sets[key] = sets[key]
                    self._sets.move_to_end(key)
            while len(self._sets) > self._size:
                self._sets.popitem(last=False)
        return [sets[key] for key in keys]

    def _key(self, place: Place, session_state: SessionState) -> Key:
        return place.text if place.arm is None else place.arm, self._loop.size(session_state)

    def _selected(self, asked: Mapping[Name, CandidateRequest]) -> dict[Name, Candidates]:
        """Select, in one scan with preferences and one without; vectors only if they are used."""
        found: dict[Name, Candidates] = {}
        for normalise in (False, True):
            some = {name: one for name, one in asked.items() if one.normalise is normalise}
            if some:
                places = [one.place for one in some.values()]
                session_states = [one.session_state for one in some.values()]
                vectors = not self._loop.policy.needs_memory
                selected = self._loop.select(
                    places, session_states, normalise=normalise, vectors=vectors
                )
                found |= zip(some, selected, strict=True)
        return found


class AnswerSources(NamedTuple):
    """What answers are made from: the arms, the loop over them, and the sets of recent queries."""

    catalogue: ServedCatalogue
    loop: Loop
    cache: CandidateCache


def _normalise(asked: CandidateRequest | None) -> bool:
    return asked is not None and asked.normalise


_KNOWN = 200  # most common arms to choose from
_LONGEST = 60  # characters in an example


def example_queries(
    catalogue: Catalogue, count: int, segment: str = "", duplicate_keys: DuplicateKeys | None = None
) -> list[str]:
    """Return up to `count` queries of a segment: the most common, then those far from the others.

    Excluded, removed and long queries are left out, and so are arms added after the pool was made.
    """
    pool = catalogue.pool
    common = pool.alive(catalogue.common_in(segment))
    common = common[~np.isin(common, catalogue.hidden_arms())]
    if duplicate_keys is not None:
        common = common[best_first(duplicate_keys.of_arms(common))]
    short = [arm for arm in common.tolist() if len(catalogue.shown(arm)) <= _LONGEST][:_KNOWN]
    if not short:
        return []
    rows = pool.rows(np.array(short, np.int64))
    taken = [0]
    nearest = rows @ rows[0]
    while len(taken) < min(count, len(short)):
        taken.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, rows @ rows[taken[-1]])
    return [catalogue.shown(short[at]) for at in taken]


class ToAnswer(NamedTuple):
    """A slate that is asked for."""

    request: RecommendRequest
    place: Place
    session_state: SessionState
    selected: Candidates


class Entries:
    """Describes what was chosen, as events and answers have it."""

    def __init__(self, loop: Loop, *, repeat: bool) -> None:
        self.loop, self.repeat = loop, repeat

    def by_policy(self, loop: Loop, slate: Slate, asked: ToAnswer) -> tuple[events.SlateEntry, ...]:
        """Return the entries that the policy of a loop chose, best first."""
        chosen = slate._replace(choices=[one for one in slate.choices if not one.pinned])
        entries = self._described(chosen, asked.selected, loop, explain=asked.request.explain)
        if loop is not self.loop and isinstance(loop.policy, MostSimilar):  # in the same order
            return tuple(replace(one, score=one.similarity) for one in entries)
        return entries

    def similar(self, asked: ToAnswer) -> tuple[tuple[events.SlateEntry, ...], int]:
        """Return the entries of similarity alone, and out of how many they come."""
        request, place, session_state, selected = asked
        of_session = {
            place.arm,
            *session_state.history,
            *([] if self.repeat else session_state.seen),
        }
        arms = np.array([arm for arm in of_session if arm is not None], np.int64)
        excluded = (self.loop.catalogue.hidden_arms(), self.loop.catalogue.pool.removed)
        left = without(selected, np.concatenate([arms, *excluded]))
        if request.at_least > 0:  # similarity alone has no probability
            left = left.take(np.arange(0))
        pinned = self.pinned(self.loop.catalogue.pinned(place)[: request.m], place)
        left = without(left, [entry.arm for entry in pinned])
        most = max(1, request.m - len(pinned))
        similar = MostSimilar(top=1).rank(
            self.loop.with_duplicate_keys(left), Context(place.vector), most
        )
        alike = dict(zip(left.arms.tolist(), left.similarities.tolist(), strict=True))
        entries = tuple(
            self._entry(
                replace(choice, score=alike[choice.arm]),
                left,
                selected,
                None,
                explain=request.explain,
            )
            for choice in similar
        )
        return (*pinned, *entries)[: request.m], len(left)

    def pinned(self, arms: Sequence[int], place: Place) -> tuple[events.SlateEntry, ...]:
        """Return the entries of pinned arms, without features: they teach nothing."""
        return tuple(
            events.SlateEntry(
                arm=choice.arm,
                text=self.loop.catalogue.shown(choice.arm),
                score=choice.score,
                propensity=choice.propensity,
                propensity_estimated=False,
                similarity=choice.score,
                uncertainty=None,
                features=(),
                source=events.PINNED,
            )
            for choice in self.loop.pinned(place, arms)
        )

    def _described(
        self, slate: Slate, selected: Candidates, loop: Loop, *, explain: bool
    ) -> tuple[events.SlateEntry, ...]:
        choices, candidates = slate.choices, slate.candidates
        if not np.isfinite([choice.score for choice in choices]).all():
            raise FloatingPointError("the model's scores are not finite")
        arms = candidates.arms.tolist()
        places = sorted(arms.index(choice.arm) for choice in choices)
        shown = candidates.take(np.array(places, np.int64))
        estimates = loop.policy.estimates(shown, slate.context)
        widths: dict[int, float] = {}
        if estimates is not None:
            widths = dict(zip(shown.arms.tolist(), estimates[1].tolist(), strict=True))
        entries = (
            self._entry(choice, shown, selected, widths.get(choice.arm), explain=explain)
            for choice in choices
        )
        model_state = loop.model_state
        if not explain or not model_state.calibration:
            return tuple(entries)
        chances = model_state.probabilities(candidates, slate.context)  # of all, since they share 1
        chance = dict(zip(arms, chances.tolist(), strict=True))
        return tuple(replace(entry, probability=chance[entry.arm]) for entry in entries)

    def _entry(
        self,
        choice: Choice,
        candidates: Candidates,
        selected: Candidates,
        width: float | None,
        *,
        explain: bool,
    ) -> events.SlateEntry:
        at, preference = candidates.arms.tolist().index(choice.arm), None
        if explain and selected.normalised:
            of_arms = zip(selected.arms.tolist(), selected.preferences.tolist(), strict=True)
            preference = dict(of_arms).get(choice.arm)
        return events.SlateEntry(
            arm=choice.arm,
            text=self.loop.text_of(choice.arm, candidates),
            score=choice.score,
            propensity=choice.propensity,
            propensity_estimated=choice.propensity_estimated,
            similarity=float(candidates.similarities[at]),
            uncertainty=width,
            features=tuple(choice.features.tolist()),
            asked_at=candidates.own_asked.get(choice.arm),
            preference=preference,
            source=events.MEMORY if choice.arm in candidates.recalled else events.SELECTION,
            explored=choice.explored,
        )


def drafted(
    names: tuple[str, str],
    rankings: tuple[Sequence[events.SlateEntry], Sequence[events.SlateEntry]],
    length: int,
    coins: np.random.Generator,
) -> tuple[events.SlateEntry, ...]:
    """Draft entries from the rankings of two policies; how probable they are is not known."""
    first, second = ([entry.arm for entry in ranking] for ranking in rankings)
    draft = team_draft(first, second, max(0, length), coins)
    return tuple(
        replace(rankings[team][place], team=names[team], propensity=0.0, propensity_estimated=False)
        for team, place in zip(*draft, strict=True)
    )


def own_asked(loop: Loop, place: Place, session_state: SessionState) -> events.OwnAsked | None:
    """Return what the person's own past is to remember of this query."""
    if session_state.person is None:
        return None
    key, after = loop.own_key(place), session_state.previous
    text = key if isinstance(key, str) else ""
    return events.OwnAsked(
        person=session_state.person,
        text=text,
        vector=events.vector_text(place.vector) if text else "",
        after_arm=after if isinstance(after, int) else None,
        after_text=after if isinstance(after, str) else "",
    )


_log = logging.getLogger("nextquery.service")
_FAILED = "the model failed; similarity answers instead"


class SlateMaker:
    """Makes slates with the model as it is now. Call it while the learner's lock is held.

    `offer` is called with the id of a decision and its ranked slate, unless two policies share it.
    """

    def __init__(
        self,
        assignment: Assignment,
        clock: Clock,
        *,
        repeat: bool,
        offer: Callable[[str, Slate], None],
    ) -> None:
        self.assignment, self.loop, self.learner = assignment, assignment.loop, assignment.learner
        self.entries = Entries(self.loop, repeat=repeat)
        self._clock, self._offer = clock, offer

    def slates(self, asked: Sequence[ToAnswer]) -> list[events.DecisionEvent]:
        """Return decision events; without entries while the switch is off."""
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

    def _empty(self, asked: ToAnswer) -> events.DecisionEvent:
        request, place, session_state, selected = asked
        state = self.learner.state
        return events.DecisionEvent(
            query=place.query,
            m=request.m,
            anchor_arm=place.arm,
            history=session_state.history,
            seen=session_state.seen,
            trial=session_state.trial + 1,
            slate=(),
            policy="off",
            model=state.model,
            model_version=state.position,
            fallback=False,
            not_searched=selected.missing,
            at_least=request.at_least,
            own=own_asked(self.loop, place, session_state),
            kept=self.loop.kept(place, session_state, selected),
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
            slates = self._of_one_loop(self.assignment.loop_of(policy), [asked[n] for n in numbers])
            for number, slate in zip(numbers, slates, strict=True):
                found[number] = slate
        return found

    def _of_one_loop(self, loop: Loop, asked: Sequence[ToAnswer]) -> Sequence[Slate | None]:
        try:
            return loop.rank_many([self._to_rank(one) for one in asked], Moment(self._clock.now()))
        except Exception:  # people get an answer even if the model is broken
            if len(asked) > 1:  # one of them must not take the others with it
                return [slate for one in asked for slate in self._of_one_loop(loop, [one])]
            _log.exception(_FAILED)
        return [None]

    def _to_rank(self, asked: ToAnswer) -> ToRank:
        request, place, session_state, selected = asked
        rng = self.loop.draws(request.session_id, session_state.trial + 1)
        return ToRank(place, session_state, selected, request.m, rng, request.at_least)

    def _filled(
        self,
        body: events.DecisionEvent,
        asked: ToAnswer,
        turn: Turn,
        slate: Slate | None,
        partner: Slate | None = None,
    ) -> events.DecisionEvent:
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
                    assigned=turn.assigned if turn.uses_fallback else "",
                    fallback=turn.uses_fallback,
                    candidates=int((slate.candidates.arms >= 0).sum()),
                    failures=events.bytes_text(slate.failures),
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
        body: events.DecisionEvent,
        asked: ToAnswer,
        turn: Turn,
        entries: Sequence[events.SlateEntry],
        partner: Slate,
        above: Sequence[events.SlateEntry],
    ) -> events.DecisionEvent:
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


def session_state_of(
    session_id: str, last: StoredDecision | None, person: str | None = None
) -> SessionState:
    """Return the state of a session after its newest decision, for a person if they are known."""
    if last is None:
        return SessionState(person=person, session=session_id)
    before, own = session_state_before(last), last.body.own
    key = None if own is None else own.text or None
    after = before.after(last.body.anchor_arm, last.body.arms, key, last.body.kept)
    return after._replace(person=person, previous=after.previous if own is not None else None)


def session_state_before(decision: StoredDecision) -> SessionState:
    """Return the state of a session just before a decision, but with the candidate set of it."""
    body, own = decision.body, decision.body.own
    session = decision.session_id
    earlier = SessionState(body.history, body.seen, body.trial - 1, session=session, kept=body.kept)
    return earlier if own is None else earlier._replace(person=own.person, previous=own.after)


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
        self.served = AnswerSources(catalogue, loop, CandidateCache(loop, self.options.cache_size))

    def now(self) -> tuple[AnswerSources, int]:
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

    def _check(self, served: AnswerSources | None) -> None:
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
        session_states: Sequence[SessionState],
        normalise: Sequence[bool] | None = None,
        served: AnswerSources | None = None,
    ) -> list[Candidates]:
        """Return the candidates of every place in its session.

        `normalise` says for each whether the paper's preferences are asked for. `served` are the
        arms that the places are of.
        """
        catalogue, _, cache = self.served if served is None else served
        version, needed = catalogue.version, self.assignment.needs_preferences
        wanted = [needed or asked for asked in normalise or [False] * len(places)]
        return cache.select(list(map(CandidateRequest, places, session_states, wanted)), version)

    def slate(
        self,
        request: RecommendRequest,
        place: Place,
        selected: Candidates,
        session_state: SessionState,
    ) -> events.DecisionEvent:
        """Make a slate with the model as it is now, as a decision event."""
        return self.slates([ToAnswer(request, place, session_state, selected)])[0]

    def slates(
        self, asked: Sequence[ToAnswer], served: AnswerSources | None = None
    ) -> list[events.DecisionEvent]:
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
        session_state: SessionState,
        served: AnswerSources | None = None,
    ) -> Forecast:
        """Return the most probable next queries; none while the switch is off."""
        with self.lock:
            self._check(served)
            position = self.learner.position
            if not self.learner.state.on:
                return Forecast([], 1.0, position, selected.missing)
            likely, other = self._loop_for(request).forecast(
                place,
                session_state,
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
        session_state: SessionState,
        served: AnswerSources | None = None,
    ) -> Considered:
        """Return all candidates with their scores; none while the switch is off.

        A person's own queries that are not arms have no place on a map, so they are left out.
        """
        with self.lock:
            self._check(served)
            loop = self._loop_for(request)
            anonymous, returns = session_state._replace(person=None), loop.returns
            candidates, context = loop.candidates(
                place, anonymous, selected, returns=returns, at=self._now()
            )
            if not self.learner.state.on:
                candidates = candidates.take(np.arange(0))
            scores = loop.model_state.expected(candidates, context)
            if self.loop.duplicate_keys is not None:
                order = np.lexsort((candidates.arms, -scores))
                order = order[best_first(self.loop.duplicate_keys.of(candidates)[order])]
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
            session_state = session_state_before(decision)._replace(person=person)
            selected = self.select([place], [session_state], served=served)[0]
        with self.lock:
            if slate is None and served is not self.served:
                return self.as_candidate(arm, decision, person)  # the pool was changed
            loop = self.assignment.loop_of(decision.body.policy)
            failures, policy = b"", loop.policy
            if slate is None:
                repeat, returns = loop.repeat, loop.returns
                candidates, context = loop.candidates(
                    place,
                    session_state,
                    selected,
                    repeat=repeat,
                    returns=returns,
                    at=Moment(decision.time),
                )
                rng = loop.draws(decision.session_id, decision.body.trial)
                failures = policy.failures(candidates, context, rng.spawn(1)[0])
            else:
                candidates, context = slate.candidates, slate.context
            choice = policy.as_choice(candidates, context, arm)
        return (() if choice is None else tuple(choice.features.tolist())), failures
