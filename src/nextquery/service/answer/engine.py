"""The engine: recommends, learns and forecasts. Thread-safe, and independent of HTTP."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import InvalidStateError
from contextlib import suppress

from nextquery.arms import ArmPool
from nextquery.service.answer.batching import Batcher
from nextquery.service.answer.expensive.lane import Lane
from nextquery.service.answer.operations import Operations
from nextquery.service.answer.people.rights import Rights
from nextquery.service.answer.reports import Reports
from nextquery.service.answer.request_handler import RequestHandler
from nextquery.service.answer.requests.asking import Asking, closing
from nextquery.service.answer.requests.kinds import Request
from nextquery.service.answer.shards import leave
from nextquery.service.answer.slates import Answerer
from nextquery.service.log.store import Clock, Hashes, Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.background import Background
from nextquery.service.model.forgetting.in_pool import use_anew
from nextquery.service.model.pool_change import Opened, PoolFollower, open_again, reader_of
from nextquery.service.model.prepare import Ask, loop_of, never, prepare
from nextquery.service.model.state import State
from nextquery.service.settings import EngineOptions
from nextquery.warm_start import StepProgress

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
        loop = loop_of(self.catalogue, options, self.learner.state.learnt)
        secret, learner = self.hashes.store_secret, self.learner
        self.answerer = Answerer(self.catalogue, loop, learner, options, self.clock, secret)
        self._waiting, self._count_lock = 0, threading.Lock()
        self._closed = False
        self.background = Background(self.learner, store, options, self.clock)
        self.writer = Writer(store, self.clock, written=self.background.wake)
        self.handler = RequestHandler(
            self.answerer, store, self.writer, options, self._again, self.hashes
        )
        self.batcher: Batcher[Request] = Batcher(
            self.handler.answer,
            most=options.batch,
            gather_s=options.gather_ms / 1000,
            in_flight=lambda: self._waiting,
        )
        self.lane = Lane(self.batcher.idle)
        self.follower = PoolFollower(
            self.learner,
            options,
            lambda write: self.writer.submit(write).result(),
            opener,
            self._use,
            self.pool,
            ready=self.answerer.ready,
        )
        self.learner.changed, self.learner.swapped = self.follower.arrive, self._learnt_anew
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
        leave(before)

    def _learnt_anew(self, state: State) -> None:
        """Recommend with what was learnt anew; the state is locked."""
        use_anew(self.answerer.loop, state.learnt, self.pool)
        self.follower.again()
