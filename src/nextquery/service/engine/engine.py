"""The engine: recommends, learns and forecasts. Thread-safe, and independent of HTTP.

Applications ask for recommendations, feedback, forecasts and maps. Operators change blocks,
patterns, pins, imported queries, arms under review and the kill switch. Each change is checked
before anything is written. The engine also reports its statistics and its health.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Concatenate, Literal, ParamSpec, TypeVar

from nextquery.arms import ArmPool
from nextquery.catalogue.catalogue import Catalogue
from nextquery.catalogue.rules import MOST_PATTERNS, MOST_PINS
from nextquery.checks import one_of, whole_number
from nextquery.errors import InvalidInput, StoreUnavailable
from nextquery.segments import check_segment, key_of, segment_of, text_of
from nextquery.service import tracing
from nextquery.service.engine import requests
from nextquery.service.engine.experiments import Experiment, report
from nextquery.service.engine.handler import Batcher, RequestHandler
from nextquery.service.engine.slates import Answerer, example_queries
from nextquery.service.erasure.pool import use_after_erasure
from nextquery.service.erasure.rights import Rights
from nextquery.service.log import events
from nextquery.service.log.feedback import FeedbackResult, NewFeedback
from nextquery.service.log.operators import (
    ApproveArm,
    ArmText,
    Control,
    Curate,
    Curated,
    RejectArm,
    RemoveArm,
    listed_arm_texts,
)
from nextquery.service.log.store import Clock, Hashes, Store, request_hash, request_key
from nextquery.service.log.teaching import EndFallback, Forward, RollBack
from nextquery.service.log.writer import Write, Writer
from nextquery.service.model.background import Background
from nextquery.service.model.catalogue import ServedCatalogue
from nextquery.service.model.learner import Learner
from nextquery.service.model.pool_change import Opened, PoolFollower, open_again, reader_of
from nextquery.service.model.prepare import Ask, loop_of, never, prepare
from nextquery.service.model.state import State
from nextquery.service.settings import EngineOptions
from nextquery.warm_start import StepProgress

MOST_CURATED = 1000  #: queries in one import


def to_curate(
    catalogue: Catalogue,
    hashes: Hashes,
    queries: Sequence[str],
    segment: str,
    by: events.By,
    model: int | None = None,
) -> Curate:
    """Return the import of those queries that are no arms yet; all of them must be able to be.

    `model` is the position of the model whose pool has the arms.
    """
    name = check_segment(segment)
    if len(queries) > MOST_CURATED:
        raise InvalidInput(
            f"received {len(queries)} queries; at most {MOST_CURATED} may be imported together. "
            "Import them in parts."
        )
    found: dict[str, Curated] = {}
    known: set[str] = set()
    for query in queries:
        place = catalogue.place(requests.check_query(query), name)
        if place.arm is not None:
            known.add(hashes.text(place.text))
            continue
        if not place.may_become_arm:
            raise InvalidInput(
                f"{query[:80]!r} cannot be suggested: it is blocked or was removed, looks private, "
                "or the encoder knows none of its words. Leave it out, or allow it first. Nothing "
                "was written."
            )
        key, row = hashes.text(place.text), events.vector_text(place.vector)
        found[place.text] = Curated(key, place.text, place.shown, row)
    return Curate(list(found.values()), by, model, known)


def to_pin(
    catalogue: Catalogue, query: str, after: str | None, segment: str, by: events.By | None
) -> Control:
    """Return the change that pins an arm after a query, or with None after every query."""
    name = check_segment(segment)
    place = catalogue.place(requests.check_query(query), name)
    if place.arm is None:
        raise InvalidInput(
            f"{query[:80]!r} is not a query that can be shown, so it cannot be pinned. Import it "
            "first: nextquery curate, or POST /v1/curated."
        )
    follows = _after(catalogue, after, name)
    if len(catalogue.pins) >= MOST_PINS and (follows, place.text) not in set(catalogue.pins):
        raise InvalidInput(
            f"{len(catalogue.pins)} pins are in force, and at most {MOST_PINS} may be. Remove some."
        )
    return Control(events.Pinned(place.text, follows, by))


def to_unpin(
    catalogue: Catalogue, query: str, after: str | None, segment: str, by: events.By | None
) -> Control:
    """Return the change that removes a pin."""
    name = check_segment(segment)
    text, follows = (
        catalogue.place(requests.check_query(query), name).text,
        _after(catalogue, after, name),
    )
    if (follows, text) not in set(catalogue.pins):
        where = "after this query" if follows else "after every query"
        raise InvalidInput(f"{query[:80]!r} is not pinned {where}. GET /v1/pins lists the pins.")
    return Control(events.Unpinned(text, follows, by))


def listed_pins(catalogue: Catalogue) -> list[dict[str, str | None]]:
    """Return the pins in force: what is shown, after which query (None: every one), and where."""
    return [
        {"query": text_of(text), "after": text_of(after) or None, "segment": segment_of(text)}
        for after, text in catalogue.pins
    ]


def _after(catalogue: Catalogue, after: str | None, segment: str) -> str:
    """Return the key of the query that something is pinned after; "" for every query."""
    if after is None:
        return ""
    key = catalogue.place(requests.check_query(after, "after"), segment).text
    if not key:
        raise InvalidInput(
            f"nothing is left of {after[:80]!r} after cleaning. Pin after another query, or leave "
            "it out to pin after every query."
        )
    return key


Result = TypeVar("Result")


class Operations:
    """The part of the engine that only operators use; each change returns its log position."""

    store: Store
    writer: Writer
    learner: Learner
    catalogue: ServedCatalogue
    hashes: Hashes

    def block(self, query: str, by: events.By | None = None) -> int:
        """Stop recommending this query; return the position of the event."""
        return self._change(
            Control(events.Blocked(self.catalogue.key(requests.check_query(query)), by))
        )

    def unblock(self, query: str, by: events.By | None = None) -> int:
        """Remove a block; return the position of the event."""
        return self._change(
            Control(events.Unblocked(self.catalogue.key(requests.check_query(query)), by))
        )

    def block_pattern(self, pattern: str, by: events.By | None = None) -> int:
        """Stop recommending what this pattern matches; return the position of the event."""
        cleaned = self.catalogue.pattern(pattern).text
        known = self.catalogue.excluded.patterns
        if len(known) >= MOST_PATTERNS and cleaned not in known:
            raise InvalidInput(
                f"{len(known)} patterns are blocked, and at most {MOST_PATTERNS} may be. Allow "
                "some again, or use one with * for several."
            )
        return self._change(Control(events.PatternBlocked(cleaned, by)))

    def allow_pattern(self, pattern: str, by: events.By | None = None) -> int:
        """Allow again what a blocked pattern matches; return the position of the event."""
        cleaned = self.catalogue.pattern(pattern).text
        self.learner.catch_up()
        if cleaned not in self.catalogue.excluded.patterns:
            raise InvalidInput(
                f"the pattern {cleaned!r} is not blocked. GET /v1/patterns lists those that are."
            )
        return self._change(Control(events.PatternAllowed(cleaned, by)))

    def patterns(self) -> list[tuple[str, int]]:
        """Return the blocked patterns in order, each with the number of arms that it hides."""
        self.learner.catch_up()
        with self.learner.lock:
            excluded = self.catalogue.excluded
            return [(text, len(excluded.arms_of(text))) for text in sorted(excluded.patterns)]

    def curate(self, queries: Sequence[str], by: events.By, *, segment: str = "") -> int:
        """Make arms of queries that may be suggested although nobody asked; return how many."""
        self.learner.catch_up()
        model = self.learner.state.model
        return self._change(to_curate(self.catalogue, self.hashes, queries, segment, by, model))

    def pin(
        self,
        query: str,
        after: str | None = None,
        by: events.By | None = None,
        *,
        segment: str = "",
    ) -> int:
        """Always show a query at the top after another, or after every one; return the position."""
        self.learner.catch_up()
        return self._change(to_pin(self.catalogue, query, after, segment, by))

    def unpin(
        self,
        query: str,
        after: str | None = None,
        by: events.By | None = None,
        *,
        segment: str = "",
    ) -> int:
        """Remove a pin; return the position of the event."""
        self.learner.catch_up()
        return self._change(to_unpin(self.catalogue, query, after, segment, by))

    def pins(self) -> list[dict[str, str | None]]:
        """Return the pins in force."""
        self.learner.catch_up()
        with self.learner.lock:
            return listed_pins(self.catalogue)

    def switch(self, on: bool, by: events.By | None = None) -> int:
        """Set the kill switch (off: every slate is empty); return the position of the event."""
        return self._change(Control(events.Switched(bool(on), by)))

    def roll_back(self, to: int, by: events.By | None = None) -> int:
        """Make the model what it was at a position; every worker computes it in the background."""
        return self._change(RollBack(whole_number(to, "to", at_least=0), by))

    def forward(self, by: events.By | None = None) -> int:
        """End the newest roll-back, as if it had never been."""
        return self._change(Forward(by))

    def end_fallback(self, by: events.By | None = None, policy: str | None = None) -> int:
        """Let a policy that fell back answer again; without a name, all of them."""
        return self._change(EndFallback(by, policy))

    def remove(self, query: str, by: events.By | None = None, *, segment: str = "") -> int:
        """Remove an arm of a segment for good: its query never becomes an arm of it again."""
        self.learner.catch_up()
        arm = self.catalogue.find_exactly(requests.check_query(query), check_segment(segment))
        if arm is None:
            raise InvalidInput(
                f"{query[:80]!r} is not an arm, so there is nothing to remove. To keep a query "
                "from being shown, block it; to refuse one that is held for review, reject it."
            )
        text_key = self.hashes.text(self.catalogue.pool.texts[arm])
        shown = key_of(check_segment(segment), self.catalogue.shown(arm))
        return self._change(RemoveArm(arm, text_key, shown, by))

    def approve(self, query: str, by: events.By | None = None, *, segment: str = "") -> int:
        """Make an arm of a query that is held for review in a segment."""
        model, held = self.learner.state.model, self._held(query, segment)
        return self._change(ApproveArm(self.hashes.text(held.text), held, by, model))

    def reject(self, query: str, by: events.By | None = None, *, segment: str = "") -> int:
        """Refuse a query that is held for review: it never becomes an arm of its segment."""
        held = self._held(query, segment)
        return self._change(RejectArm(self.hashes.text(held.text), held.text, by))

    def arm_texts(self, limit: int) -> tuple[list[ArmText], int]:
        """Return held, new, rejected and removed arms (see `listed_arm_texts`)."""
        return listed_arm_texts(self.store, limit)

    def _held(self, query: str, segment: str) -> events.ArmHeld:
        self.learner.catch_up()
        text = self.catalogue.place(requests.check_query(query), check_segment(segment)).text
        with self.learner.lock:
            held = self.learner.state.held.get(text)
        if held is None:
            raise InvalidInput(
                f"{query[:80]!r} is not held for review. GET /v1/arms lists the held queries."
            )
        return held

    def _change(self, write: Write[Result]) -> Result:
        done = self.writer.submit(write).result()
        self.learner.catch_up()
        return done


_SHORT = 12  # characters of a fingerprint that are told


class Reports:
    """The part of the engine that reports numbers; it changes nothing."""

    pool: ArmPool
    store: Store
    writer: Writer
    learner: Learner
    catalogue: ServedCatalogue
    answerer: Answerer
    background: Background
    handler: RequestHandler
    follower: PoolFollower
    _waiting: int

    def stats(self, *, by: Literal["hour", "day"] = "hour") -> requests.Stats:
        """Return acceptance, regret and coverage, by policy and time."""
        one_of(by, "by", ("hour", "day"))
        with self.learner.lock:
            statistics, model = self.learner.state.statistics, self.learner.state.model_event
            return {
                "position": self.learner.position,
                "totals": statistics.totals(),
                "not_teaching": statistics.not_teaching,
                "coverage": statistics.coverage(len(self.catalogue.pool)),
                "floor": None if model is None else model.floor,
                "candidates": statistics.sizes(),
                "by": by,
                "rows": statistics.table(by),
            }

    def examples(self, count: int, segment: str = "") -> list[str]:
        """Return common queries of a segment, without those that are blocked by now."""
        self.handler.read_to_the_barrier()
        duplicate_keys = self.answerer.loop.duplicate_keys
        return example_queries(self.catalogue, count, segment, duplicate_keys)

    def experiment(self) -> Experiment:
        """Return what is known of the policies that share the sessions."""
        self.learner.catch_up()
        with self.learner.lock:
            return report(self.learner.state)

    def health(self) -> requests.EngineHealth:
        """Return the state of the engine."""
        try:
            head, ok = self.store.head().position, self.writer.failures == 0
            snapshots = self.store.snapshot_positions()
        except StoreUnavailable:
            head, ok, snapshots = self.learner.position, False, []
        state, cache = self.learner.state, self.answerer.cache
        shards, away = requests.unavailable_shards(self.pool)
        return requests.EngineHealth(
            position=self.learner.position,
            lag=max(0, head - self.learner.position),
            store_ok=ok,
            learning=self.background.error is None,
            on=state.on,
            fallen_back=bool(state.fallbacks),
            rolled_back=bool(state.roll_backs.in_force),
            computing=state.stale,
            policy=self.answerer.policy,
            arms=len(self.catalogue.pool),
            blocked=len(state.blocked),
            held=len(state.held),
            capped=self.handler.new_arms.rules.capped,
            snapshots=snapshots,
            waiting=self._waiting,
            writing=self.writer.waiting,
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            shards=shards,
            shards_away=len(away),
            away=away,
            pool=self.catalogue.digest[:_SHORT],
            pool_current=self.answerer.ready.is_set() and not self.follower.problem,
        )


Self = TypeVar("Self")
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def waited_for(
    submit: Callable[Concatenate[Self, Arguments], "Future[Answer]"],
) -> Callable[Concatenate[Self, Arguments], Answer]:
    """Return a method that calls `submit` and waits for its answer."""

    def wait(self: Self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return submit(self, *args, **kwargs).result()

    wait.__doc__ = f"Call `{submit.__name__}` and wait for the answer."
    return wait


class Asking:
    """The part of the engine that checks what is asked, and passes it to the batcher."""

    options: EngineOptions
    hashes: Hashes
    catalogue: ServedCatalogue
    writer: Writer
    batcher: Batcher[requests.Request]
    lane: requests.Lane
    _waiting: int
    _count_lock: threading.Lock

    def submit_recommend(
        self,
        *,
        session_id: str,
        query: str,
        m: int = 5,
        user_id: str | None = None,
        request_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        at_least: float | None = None,
        explain: bool = False,
        hits: int | None = None,
        segment: str = "",
    ) -> "Future[requests.Decision]":
        """Ask for a slate; the future holds it once it is durable.

        A session belongs to its `owner`: the same id of another owner is another session. A
        repeated `request_id` of the same owner gets the same answer again; with another request it
        raises `Conflict`. Pass `trusted` only if you know that the user is `user_id`: then the
        slate may use this person's own past, and only they may continue the session. Nothing less
        probable than `at_least` is in it; the default is `recommend_at_least`. With `explain` it
        has the paper's preferences too. `hits` is how many results the query had, if you know: with
        fewer than `min_hits` it never becomes an arm. The session is in this `segment`: the same id
        in another one is another session.
        """
        request = requests.RecommendRequest(
            requests.check_id(session_id, "session_id"),
            requests.check_query(query),
            requests.check_slate_length(m, self.options.m_max),
            self._user_hash(user_id),
            owner=owner,
            person=self._person(user_id, owner, trusted=trusted),
            at_least=requests.check_at_least(at_least, self.options.recommend_at_least),
            explain=explain,
            hits=requests.check_hits(hits),
            segment=check_segment(segment),
        )
        if request_id is not None:
            request.request_key = request_key(owner, requests.check_id(request_id, "request_id"))
            request.request_hash = request_hash(
                session_id,
                query,
                request.m,
                request.user_hash,
                request.person,
                at_least,
                request.segment,
            )
        request.fallback = self._waiting > self.options.max_inflight
        self._submit(request)
        return request.future

    recommend = waited_for(submit_recommend)

    def delivered(self, decision_id: str) -> None:
        """Record that the answer was sent; returns at once."""
        self.writer.mark_delivered(decision_id)

    def submit_feedback(
        self,
        *,
        decision_id: str,
        accepted: int | None,
        issued: str | None = None,
        user_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        hits: int | None = None,
    ) -> "Future[FeedbackResult]":
        """Record what a person did with a slate; the future is resolved once it is durable.

        The future may raise `UnknownDecision` (also for a decision of another `owner`, or of
        another person if both are `trusted`), `NotInSlate`, `Conflict` or `StoreUnavailable`.
        `hits` is how many results the query `issued` had, if you know.
        """
        requests.check_id(decision_id, "decision_id")
        if accepted is not None and (isinstance(accepted, bool) or not isinstance(accepted, int)):
            raise InvalidInput(f"accepted must be the id of an arm or null; received {accepted!r}.")
        user_hash = self._user_hash(user_id)
        person = self._person(user_id, owner, trusted=trusted)
        if issued is None:
            learning = self.options.learning
            made = NewFeedback(
                decision_id, accepted, learning, owner=owner, user_hash=user_hash, person=person
            )
            return self.writer.submit(made)
        typed = requests.check_query(issued, "issued")
        request = requests.FeedbackRequest(
            decision_id, accepted, typed, user_hash, owner, person, requests.check_hits(hits)
        )
        self._submit(request)
        return request.future

    feedback = waited_for(submit_feedback)

    def submit_forecast(
        self,
        *,
        session_id: str,
        query: str,
        m: int = 5,
        user_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        returns: bool = True,
        at_least: float = 0.0,
        segment: str = "",
    ) -> "Future[requests.Forecast]":
        """Ask for the most probable next queries; nothing is recorded.

        With `returns`, the session's own earlier queries are among them. Queries less probable than
        `at_least` are not.
        """
        m = requests.check_slate_length(m, self.options.m_max)
        session_id = requests.check_id(session_id, "session_id")
        person = self._person(user_id, owner, trusted=trusted)
        least = requests.check_at_least(at_least, 0.0)
        request = requests.ForecastRequest(
            session_id,
            requests.check_query(query),
            m,
            owner,
            person,
            returns,
            least,
            check_segment(segment),
        )
        self._submit(request)
        return request.future

    forecast = waited_for(submit_forecast)

    def submit_map(
        self,
        *,
        session_id: str,
        query: str,
        trail: Sequence[str] = (),
        user_id: str | None = None,
        owner: str = "",
        trusted: bool = False,
        segment: str = "",
    ) -> "Future[requests.MapData]":
        """Ask for the data of a session's map (`page_work.draw`); nothing is recorded.

        The `trail` is placed one query at a time in the lane of expensive requests. What is left
        for the batch then costs as much as a forecast.
        """
        person = self._person(user_id, owner, trusted=trusted)
        session_id = requests.check_id(session_id, "session_id")
        asked, segment = requests.check_query(query), check_segment(segment)
        request = requests.MapRequest(
            session_id, asked, owner=owner, person=person, segment=segment
        )
        earlier = requests.check_trail(trail)
        request.keep()
        if earlier:
            place = partial(self.catalogue.place, segment=segment)
            requests.place_trail(self.lane, place, earlier, request, then=self._submit)
        else:
            self._submit(request)
        return request.future

    def _submit(self, request: requests.Request) -> None:
        if self._waiting >= self.options.max_waiting:
            raise StoreUnavailable(
                f"{self._waiting} requests are already waiting. Try again in a second."
            )
        request.keep()
        tracing.attach(request)
        with self._count_lock:
            self._waiting += 1
        request.future.add_done_callback(self._answered)
        if not self.batcher.submit(request):
            request.future.set_exception(closing())

    def _answered(self, _: object) -> None:
        with self._count_lock:
            self._waiting -= 1

    def _again(self, request: requests.Request) -> None:
        """Pass a request to the handler once more, before the others."""
        if not self.batcher.submit(request, first=True):
            request.future.set_exception(closing())

    def _user_hash(self, user_id: str | None) -> str | None:
        return None if user_id is None else self.hashes.user(requests.check_id(user_id, "user_id"))

    def _person(self, user_id: str | None, owner: str, *, trusted: bool) -> str | None:
        """Return the hash of a person whose own past may be used."""
        if user_id is None:
            return None
        checked = requests.check_id(user_id, "user_id")
        return self.hashes.person(owner, checked) if trusted and self.options.personal else None


def closing() -> StoreUnavailable:
    """Return the error of requests that nobody answers any more."""
    return StoreUnavailable("this worker is closing. Nothing was written. Try again.")


_log = logging.getLogger("nextquery.service")


class Engine(Asking, Operations, Rights, Reports):
    """Answers requests from one event log.

    The *batcher* collects requests, the *request handler* answers them from the state of the
    *learner*, and the *writer* makes them durable before they are returned.
    """

    def __init__(
        self,
        pool: ArmPool,
        store: Store,
        options: EngineOptions,
        clock: Clock | None = None,
        open_pool: Callable[[], ArmPool] | None = None,
    ) -> None:
        self.store, self.options = store, options
        self.clock = Clock() if clock is None else clock
        self.hashes = Hashes.of(store, options.user_hash_secret)
        opener = open_again(pool) if open_pool is None else open_pool
        self.pool, self.learner, self.catalogue = reader_of(pool, store, options, opener)
        loop = loop_of(self.catalogue, options, self.learner.state.model_state)
        secret, learner = self.hashes.store_secret, self.learner
        self.answerer = Answerer(self.catalogue, loop, learner, options, self.clock, secret)
        self._waiting, self._count_lock = 0, threading.Lock()
        self._closed = False
        self.background = Background(self.learner, store, options, self.clock)
        self.writer = Writer(store, self.clock, written=self.background.wake)
        self.handler = RequestHandler(
            self.answerer, store, self.writer, options, self._again, self.hashes
        )
        self.batcher: Batcher[requests.Request] = Batcher(
            self.handler.answer,
            most=options.batch,
            gather_s=options.gather_ms / 1000,
            in_flight=lambda: self._waiting,
        )
        self.lane = requests.Lane(self.batcher.idle)
        self.follower = PoolFollower(
            self.learner,
            options,
            lambda write: self.writer.submit(write).result(),
            opener,
            self._use,
            self.pool,
            ready=self.answerer.ready,
        )
        self.learner.changed, self.learner.swapped = self.follower.arrive, self._use_rebuilt_model
        self.background.start(self.writer, self.follower)

    @classmethod
    def start(
        cls,
        pool: ArmPool,
        store: Store,
        options: EngineOptions | None = None,
        *,
        progress: StepProgress | None = None,
        clock: Clock | None = None,
        forget: Ask = never,
        open_pool: Callable[[], ArmPool] | None = None,
    ) -> "Engine":
        """Prepare the store (see `prepare`), read the log and start the threads.

        `open_pool` opens the pool again after an update; by default from its folder, if it has one.
        """
        chosen = EngineOptions() if options is None else options
        prepare(pool, store, chosen, progress=progress, clock=clock, forget=forget)
        return cls(pool, store, chosen, clock, open_pool)

    def close(self, *, within_s: float = 60.0) -> None:
        """Answer what is waiting, save a snapshot and stop the threads; safe to call twice.

        If the database does not answer, this takes at most `within_s` seconds. Whatever was not
        confirmed by then fails with `StoreUnavailable`. The store stays open; close it yourself.
        """
        if self._closed:
            return
        self._closed = True
        self.follower.stop()
        begin = time.monotonic()

        def left(share: float) -> float:
            return max(0.0, begin + share * within_s - time.monotonic())

        self.lane.close(within_s=left(0.25))
        abandoned = self.batcher.close(busy=lambda: self._waiting > 0, within_s=left(0.5))
        if self._waiting:
            _log.warning("closing: gave up %d requests that wait for the database", self._waiting)
        for request in abandoned:
            with suppress(InvalidStateError):  # answered just now
                request.future.set_exception(closing())
        self.writer.close(within_s=left(0.75))
        self.background.close(within_s=left(1.0))

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _use(self, opened: Opened) -> None:
        """Serve another pool; the state is locked."""
        before, self.pool, self.catalogue = self.pool, opened.pool, opened.catalogue
        self.answerer.serve(opened.catalogue, opened.loop)
        requests.leave(before)

    def _use_rebuilt_model(self, state: State) -> None:
        """Recommend with the model that was built again; the state is locked."""
        use_after_erasure(self.answerer.loop, state.model_state, self.pool)
        self.follower.again()
