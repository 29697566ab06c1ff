"""The engine: recommends, learns and forecasts. Thread-safe, and independent of HTTP."""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal

from nextquery.arms import ArmPool
from nextquery.checks import one_of
from nextquery.errors import InvalidInput, StoreUnavailable
from nextquery.service.answer.batching import Batcher
from nextquery.service.answer.hashes import keyed, request_hash, request_key
from nextquery.service.answer.inputs import check_id, check_query, check_slate_length
from nextquery.service.answer.request_handler import RequestHandler
from nextquery.service.answer.requests import (
    FeedbackRequest,
    ForecastRequest,
    MapRequest,
    RecommendRequest,
    Request,
)
from nextquery.service.answer.results import Decision, Forecast, Health, MapData, Stats
from nextquery.service.answer.shards import unavailable_shards
from nextquery.service.answer.slates import Answerer
from nextquery.service.answer.waited_for import waited_for
from nextquery.service.log.clock import Clock
from nextquery.service.log.controls import Control
from nextquery.service.log.events import ArmRemoved, Blocked, Switched, Unblocked
from nextquery.service.log.feedback import FeedbackResult, NewFeedback
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.background import Background
from nextquery.service.model.learner import Learner
from nextquery.service.model.prepare import loop_of, prepare
from nextquery.service.model.served_catalogue import ServedCatalogue
from nextquery.service.model.snapshots import newest_state
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.warm_start import Progress

_log = logging.getLogger("nextquery.service")


class Engine:
    """Answers requests from one event log.

    The *batcher* collects requests, the *request handler* answers them from the state of the
    *learner*, and the *writer* makes them durable before they are returned.
    """

    def __init__(
        self, pool: ArmPool, store: Store, options: EngineOptions, clock: Clock | None = None
    ) -> None:
        self.pool, self.store, self.options = pool, store, options
        self.clock = Clock() if clock is None else clock
        self._secret = options.user_hash_secret or store.head().secret
        state = newest_state(store)
        self.catalogue = ServedCatalogue(pool)
        self.catalogue.restore(state)
        self.learner = Learner(store, state, follows=self.catalogue.follow)
        self.learner.catch_up()
        loop = loop_of(self.catalogue, options, state.learnt)
        self.answerer = Answerer(loop, self.learner, options)
        self._waiting, self._count_lock = 0, threading.Lock()
        self._closed = False
        self.background = Background(self.learner, store, options, self.clock)
        self.writer = Writer(store, self.clock, written=self.background.wake)
        self.handler = RequestHandler(
            self.answerer, store, self.writer, options, self._again, self._secret
        )
        self.batcher: Batcher[Request] = Batcher(
            self.handler.answer,
            most=options.batch,
            gather_s=options.gather_ms / 1000,
            in_flight=lambda: self._waiting,
        )
        self.background.start(self.writer)

    @classmethod
    def start(
        cls,
        pool: ArmPool,
        store: Store,
        options: EngineOptions | None = None,
        *,
        progress: Progress | None = None,
        clock: Clock | None = None,
    ) -> "Engine":
        """Prepare the store (see `prepare`), read the log and start the threads."""
        chosen = EngineOptions() if options is None else options
        prepare(pool, store, chosen, progress=progress, clock=clock)
        return cls(pool, store, chosen, clock)

    def submit_recommend(
        self,
        *,
        session_id: str,
        query: str,
        m: int = 5,
        user_id: str | None = None,
        request_id: str | None = None,
        owner: str = "",
    ) -> "Future[Decision]":
        """Ask for a slate; the future holds it once it is durable.

        A repeated `request_id` (of the same `owner`) gets the same answer again; with another
        request it raises `Conflict`.
        """
        request = RecommendRequest(
            check_id(session_id, "session_id"),
            check_query(query),
            check_slate_length(m, self.options.m_max),
            self._user_hash(user_id),
        )
        if request_id is not None:
            request.request_key = request_key(owner, check_id(request_id, "request_id"))
            request.request_hash = request_hash(session_id, query, request.m, request.user_hash)
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
    ) -> "Future[FeedbackResult]":
        """Record what a person did with a slate; the future is resolved once it is durable.

        The future may raise `UnknownDecision`, `NotInSlate`, `Conflict` or `StoreUnavailable`.
        """
        check_id(decision_id, "decision_id")
        if accepted is not None and (isinstance(accepted, bool) or not isinstance(accepted, int)):
            raise InvalidInput(f"accepted must be the id of an arm or null; received {accepted!r}.")
        user_hash = self._user_hash(user_id)
        if issued is None:
            learning = self.options.learning
            return self.writer.submit(NewFeedback(decision_id, accepted, learning))
        typed = check_query(issued, "issued")
        request = FeedbackRequest(decision_id, accepted, typed, user_hash)
        self._submit(request)
        return request.future

    feedback = waited_for(submit_feedback)

    def submit_forecast(self, *, session_id: str, query: str, m: int = 5) -> "Future[Forecast]":
        """Ask for the most probable next queries; nothing is recorded."""
        m = check_slate_length(m, self.options.m_max)
        request = ForecastRequest(check_id(session_id, "session_id"), check_query(query), m)
        self._submit(request)
        return request.future

    forecast = waited_for(submit_forecast)

    def submit_map(
        self, *, session_id: str, query: str, trail: Sequence[str] = ()
    ) -> "Future[MapData]":
        """Ask for the data of a session's map (`session_map.draw`); nothing is recorded."""
        earlier = [check_query(text, "trail") for text in trail]
        request = MapRequest(check_id(session_id, "session_id"), check_query(query), earlier)
        self._submit(request)
        return request.future

    def block(self, query: str) -> int:
        """Stop recommending this query; return the position of the event."""
        return self._control(Blocked(self.catalogue.key(check_query(query))))

    def unblock(self, query: str) -> int:
        """Remove a block; return the position of the event."""
        return self._control(Unblocked(self.catalogue.key(check_query(query))))

    def switch(self, on: bool) -> int:
        """Set the kill switch (off: every slate is empty); return the position of the event."""
        return self._control(Switched(bool(on)))

    def remove(self, query: str) -> int:
        """Remove an arm for good; return the position of the event."""
        arm = self.catalogue.find(check_query(query))
        if arm is None:
            raise InvalidInput(f"{query[:80]!r} is not an arm, so there is nothing to remove.")
        return self._control(ArmRemoved(arm))

    def stats(self, *, by: Literal["hour", "day"] = "hour") -> Stats:
        """Return acceptance, regret and coverage, by policy and time."""
        one_of(by, "by", ("hour", "day"))
        with self.learner.lock:
            statistics, model = self.learner.state.statistics, self.learner.state.model_event
            return {
                "position": self.learner.position,
                "totals": statistics.totals(),
                "coverage": statistics.coverage(len(self.catalogue.pool)),
                "floor": None if model is None else model.floor,
                "candidates": statistics.sizes(),
                "by": by,
                "rows": statistics.table(by),
            }

    def health(self) -> Health:
        """Return the state of the engine."""
        try:
            head, ok = self.store.head().position, self.writer.failures == 0
            snapshots = self.store.snapshot_positions()
        except StoreUnavailable:
            head, ok, snapshots = self.learner.position, False, []
        state, cache = self.learner.state, self.answerer.cache
        shards, away = unavailable_shards(self.pool)
        return Health(
            position=self.learner.position,
            lag=max(0, head - self.learner.position),
            store_ok=ok,
            learning=self.background.error is None,
            on=state.on,
            policy=self.answerer.policy,
            arms=len(self.catalogue.pool),
            blocked=len(state.blocked),
            snapshots=snapshots,
            waiting=self._waiting,
            writing=self.writer.waiting,
            cache_hits=cache.hits,
            cache_misses=cache.misses,
            shards=shards,
            shards_away=len(away),
            away=away,
        )

    def close(self, *, within_s: float = 60.0) -> None:
        """Answer what is waiting, save a snapshot and stop the threads; safe to call twice.

        If the database does not answer, this takes at most `within_s` seconds. Whatever was not
        confirmed by then fails with `StoreUnavailable`. The store stays open; close it yourself.
        """
        if self._closed:
            return
        self._closed = True
        begin = time.monotonic()

        def left(share: float) -> float:
            return max(0.0, begin + share * within_s - time.monotonic())

        abandoned = self.batcher.close(busy=lambda: self._waiting > 0, within_s=left(0.5))
        if self._waiting:
            _log.warning("closing: gave up %d requests that wait for the database", self._waiting)
        for request in abandoned:
            request.future.set_exception(_closing())
        self.writer.close(within_s=left(0.75))
        self.background.close(within_s=left(1.0))

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, request: Request) -> None:
        if self._waiting >= self.options.max_waiting:
            raise StoreUnavailable(
                f"{self._waiting} requests are already waiting. Try again in a second."
            )
        request.future.set_running_or_notify_cancel()  # a caller who leaves cancels nothing
        with self._count_lock:
            self._waiting += 1
        request.future.add_done_callback(self._answered)
        if not self.batcher.submit(request):
            request.future.set_exception(_closing())

    def _answered(self, _: object) -> None:
        with self._count_lock:
            self._waiting -= 1

    def _again(self, request: Request) -> None:
        """Pass a request to the handler once more, before the others."""
        if not self.batcher.submit(request, first=True):
            request.future.set_exception(_closing())

    def _user_hash(self, user_id: str | None) -> str | None:
        if user_id is None:
            return None
        return keyed(self._secret, "user", check_id(user_id, "user_id"))

    def _control(self, body: Blocked | Unblocked | Switched | ArmRemoved) -> int:
        position = self.writer.submit(Control(body)).result()
        self.learner.catch_up()
        return position


def _closing() -> StoreUnavailable:
    return StoreUnavailable("this worker is closing. Nothing was written. Try again.")
