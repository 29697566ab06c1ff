"""The engine: recommends, learns and forecasts, whoever asks. Thread-safe, without a framework."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Literal

from nextquery.arms import ArmPool
from nextquery.checks import one_of
from nextquery.errors import InvalidInput, StoreUnavailable
from nextquery.service.answer.batching import Batcher
from nextquery.service.answer.request_handler import Desk
from nextquery.service.answer.requests import (
    Asked,
    a_query,
    a_slate_length,
    an_id,
    keyed,
    request_hash,
    request_key,
)
from nextquery.service.answer.results import Decision, Forecast
from nextquery.service.answer.session_map import Sketch
from nextquery.service.answer.shards import shards_of
from nextquery.service.answer.slates import Answerer
from nextquery.service.log.clock import Clock
from nextquery.service.log.feedback import Control, FeedbackResult, NewFeedback
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.background import Chores
from nextquery.service.model.learner import Learner, newest_state
from nextquery.service.model.prepare import loop_of, prepare
from nextquery.service.model.served_catalogue import ServedCatalogue
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.warm_start import Progress


class Engine:
    """All that answers from one event log.

    Requests gather in a *batcher*, the *desk* answers them from the *learner*'s state, and the
    *writer* makes them durable before anybody is told.
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
        self._asked, self._count_lock = 0, threading.Lock()
        self._closed = False
        self.chores = Chores(self.learner, store, options, self.clock)
        self.writer = Writer(store, self.clock, written=self.chores.wake)
        self.desk = Desk(self.answerer, store, self.writer, options, self._again, self._secret)
        self.batcher: Batcher[Asked] = Batcher(
            self.desk.answer,
            most=options.batch,
            gather_s=options.gather_ms / 1000,
            in_flight=lambda: self._asked,
        )
        self.chores.start(self.writer)

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
        """Warm-start if the store is new (see `prepare`), read the log, start the threads."""
        chosen = EngineOptions() if options is None else options
        prepare(pool, store, chosen, progress=progress, clock=clock)
        return cls(pool, store, chosen, clock)

    def recommend(self, **asked: Any) -> Decision:
        """Wait for `submit_recommend`."""
        return self.submit_recommend(**asked).result()

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
        """A slate; the future holds it once it is durable.

        With a `request_id` (apart for every `owner`) the same request is answered the same again;
        another request of that name is a `Conflict`.
        """
        asked = Asked(
            "recommend",
            Future(),
            an_id(session_id, "session_id"),
            a_query(query),
            a_slate_length(m, self.options.m_max),
        )
        if user_id is not None:
            asked.user_hash = keyed(self._secret, "user", an_id(user_id, "user_id"))
        if request_id is not None:
            asked.request_key = request_key(owner, an_id(request_id, "request_id"))
            asked.request_hash = request_hash(session_id, query, asked.m, asked.user_hash)
        asked.fallback = self._asked > self.options.max_inflight
        return self._submit(asked)

    def delivered(self, decision_id: str) -> None:
        """The answer was really sent. Returns at once."""
        self.writer.mark_delivered(decision_id)

    def feedback(self, **said: Any) -> FeedbackResult:
        """Wait for `submit_feedback`."""
        return self.submit_feedback(**said).result()

    def submit_feedback(
        self,
        *,
        decision_id: str,
        accepted: int | None,
        issued: str | None = None,
        user_id: str | None = None,
    ) -> "Future[FeedbackResult]":
        """What became of a slate; the future is resolved once it is durable.

        It may hold `UnknownDecision`, `NotInSlate`, `Conflict` or `StoreUnavailable`.
        """
        an_id(decision_id, "decision_id")
        if accepted is not None and (isinstance(accepted, bool) or not isinstance(accepted, int)):
            raise InvalidInput(f"accepted must be the id of an arm or null; received {accepted!r}.")
        user = None if user_id is None else keyed(self._secret, "user", an_id(user_id, "user_id"))
        if issued is None:
            learning = self.options.learning
            return self.writer.submit(NewFeedback(decision_id, accepted, learning))
        asked = Asked("feedback", Future(), query=a_query(issued, "issued"), user_hash=user)
        asked.decision_id, asked.accepted = decision_id, accepted
        return self._submit(asked)

    def forecast(self, **asked: Any) -> Forecast:
        """Wait for `submit_forecast`."""
        return self.submit_forecast(**asked).result()

    def submit_forecast(self, *, session_id: str, query: str, m: int = 5) -> "Future[Forecast]":
        """The likeliest next queries; no impression is recorded."""
        m = a_slate_length(m, self.options.m_max)
        session = an_id(session_id, "session_id")
        return self._submit(Asked("forecast", Future(), session, a_query(query), m))

    def submit_map(
        self, *, session_id: str, query: str, trail: Sequence[str] = ()
    ) -> "Future[Sketch]":
        """What the map of a session is drawn from (`atlas.draw`); nothing is recorded."""
        asked = Asked("map", Future(), an_id(session_id, "session_id"), a_query(query))
        asked.trail = [a_query(text, "trail") for text in trail]
        return self._submit(asked)

    def block(self, query: str) -> int:
        """Never answer with this query again; the position of the event."""
        return self._control("blocked", {"text": self.catalogue.key(a_query(query))})

    def unblock(self, query: str) -> int:
        """Take a block back; the position of the event."""
        return self._control("unblocked", {"text": self.catalogue.key(a_query(query))})

    def switch(self, on: bool) -> int:
        """The kill switch: off answers with no recommendations; the position of the event."""
        return self._control("switched", {"on": bool(on)})

    def remove(self, query: str) -> int:
        """Take an arm out for ever; the position of the event."""
        arm = self.catalogue.find(a_query(query))
        if arm is None:
            raise InvalidInput(f"{query[:80]!r} is no arm, so there is nothing to remove.")
        return self._control("arm_removed", {"arm": arm})

    def stats(self, *, by: Literal["hour", "day"] = "hour") -> dict[str, Any]:
        """Acceptance, regret and coverage, by policy and time."""
        one_of(by, "by", ("hour", "day"))
        with self.learner.lock:
            said = self.learner.state.statistics
            return {
                "position": self.learner.position,
                "totals": said.totals(),
                "coverage": said.coverage(len(self.catalogue.pool)),
                "floor": self.learner.state.meta.get("floor"),
                "candidates": said.sizes(),
                "by": by,
                "rows": said.table(by),
            }

    def health(self) -> dict[str, Any]:
        """How the engine is: numbers, no secrets."""
        try:
            head, ok = self.store.head().position, self.writer.failures == 0
            snapshots = self.store.snapshot_positions()
        except StoreUnavailable:
            head, ok, snapshots = self.learner.position, False, []
        state = self.learner.state
        return {
            "position": self.learner.position,
            "lag": max(0, head - self.learner.position),
            "store_ok": ok,
            "learning": self.chores.trouble is None,
            "on": state.on,
            "policy": self.answerer.policy,
            "arms": len(self.catalogue.pool),
            "blocked": len(state.blocked),
            "snapshots": snapshots,
            "waiting": self._asked,
            "writing": self.writer.waiting,
            "cache_hits": self.answerer.hits,
            "cache_misses": self.answerer.misses,
            **shards_of(self.pool),
        }

    def close(self) -> None:
        """Finish what was taken on, keep a snapshot, stop the threads; safe to call twice.

        The store stays open: it is its opener's.
        """
        if self._closed:
            return
        self._closed = True
        self.batcher.close(busy=lambda: self._asked > 0)
        self.writer.close()
        self.chores.close()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, asked: Asked) -> "Future[Any]":
        if self._asked >= self.options.max_waiting:
            raise StoreUnavailable(
                f"{self._asked} requests wait for an answer already. Try again in a second."
            )
        asked.future.set_running_or_notify_cancel()  # a caller who left leaves a whole decision
        with self._count_lock:
            self._asked += 1
        asked.future.add_done_callback(self._answered)
        if not self.batcher.submit(asked):
            asked.future.set_exception(
                StoreUnavailable("this worker is closing; nothing was written. Try again.")
            )
        return asked.future

    def _answered(self, _: "Future[Any]") -> None:
        with self._count_lock:
            self._asked -= 1

    def _again(self, asked: Asked) -> None:
        """A request that the desk must look at once more."""
        self.batcher.submit(asked, first=True)

    def _control(self, kind: str, body: dict[str, Any]) -> int:
        position: int = self.writer.submit(Control(kind, body)).result()
        self.learner.catch_up()
        return position
