"""Background work: reading the log, keeping snapshots, timing out slates, recomputing."""

import logging
import threading
import time

import sqlalchemy as sa

from nextquery.errors import StoreUnavailable
from nextquery.service.engine.experiments import fall_back
from nextquery.service.erasure.erase import Tidy
from nextquery.service.log.decisions import CloseOpen, TimeoutCutoff, due
from nextquery.service.log.schema import decisions
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.learner import Learner, save_snapshot
from nextquery.service.model.pool_change import PoolFollower
from nextquery.service.settings import EngineOptions

_log = logging.getLogger("nextquery.service")
_FIRST_TIDY_S, _TIDY_S = 30.0, 300.0  # seconds between two looks at what is too old
_BETWEEN_S = 0.05  # seconds between two transactions of an erasure by age


class Background:
    """Threads that read the log and keep snapshots, close expired slates, and recompute.

    The last works only after decisions were left out or erased; it does not hold up the others. One
    more looks after the store: retention, and what erasures left undone. Another one follows the
    folder of the pool.
    """

    def __init__(
        self, learner: Learner, store: Store, options: EngineOptions, clock: Clock
    ) -> None:
        self.learner, self.store, self.options, self.clock = learner, store, options, clock
        self.error: Exception | None = None
        self._grown, self._stop = threading.Event(), threading.Event()
        self._stale = threading.Event()
        self._snapshot_at = learner.position
        self._threads: list[threading.Thread] = []

    def start(self, writer: Writer, follower: PoolFollower) -> None:
        """Start the threads."""
        self.writer, self.follower = writer, follower
        self.tidy = Tidy(
            self.store,
            lambda write: writer.submit(write).result(),
            self.options.retention_days,
            lambda: self._stop.wait(_BETWEEN_S),
        )
        for work in (self._read, self._sweep, self._refresh, self._tidy, self._follow):
            name = f"nextquery{work.__name__.replace('_', '-')}"
            self._threads.append(threading.Thread(target=work, name=name, daemon=True))
            self._threads[-1].start()

    def wake(self) -> None:
        """Read the log now, because it grew."""
        self._grown.set()

    def close(self, *, within_s: float = 30.0) -> None:
        """Stop the threads; the reader reads the log to its end and keeps a snapshot.

        A thread that still waits for the database after `within_s` seconds is left behind.
        """
        self._stop.set()
        self._grown.set()
        self._stale.set()
        self.follower.stop()
        end = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            _log.warning(
                "closing: the database did not answer within %g s; there is no last snapshot. "
                "Nothing is lost: a restart reads the log",
                within_s,
            )

    def _read(self) -> None:
        while not self._stop.is_set():
            self._grown.wait(self.options.poll_s)
            self._grown.clear()
            try:
                self.learner.catch_up()
                if self.learner.state.stale:
                    self._stale.set()
                fall_back(self.learner, self.writer)
                self.follower.announced(self.learner.state.announced)
                if self.learner.position - self._snapshot_at >= self.options.snapshot_every:
                    self._snapshot()
                self.error = None
            except Exception as error:  # keep answering; the health routes report it
                if self.error is None:
                    _log.error("cannot read the log: %s", error)
                self.error = error
                self._stop.wait(0.5)
        try:
            self.learner.catch_up()
            self._snapshot()
        except Exception as error:  # nothing is lost: a restart reads the log
            _log.warning("could not save the last snapshot: %s", error)

    def _refresh(self) -> None:
        while self._stale.wait() and not self._stop.is_set():
            self._stale.clear()
            try:
                self.learner.refresh(self._stop.is_set)
                if not self.store.snapshot_positions():  # an erasure deleted them
                    self._snapshot_at = -self.options.snapshot_every
                    self._grown.set()
            except Exception as error:  # the reader sees that the state is stale, and asks again
                _log.error("cannot recompute the model: %s", error)
                self._stop.wait(0.5)

    def _follow(self) -> None:
        self.follower.run()

    def _snapshot(self) -> None:
        """Save a snapshot, unless another worker saved one that is about as new."""
        newest = max(self.store.snapshot_positions(), default=0)
        position = self.learner.position
        closing = self._stop.is_set()
        near = newest if closing else newest + self.options.snapshot_every // 2
        if near < position:
            if self.learner.state.stale:  # it is being recomputed
                return
            with self.learner.lock:
                state = self.learner.state.copy()
            if state.stale:
                return
            position = state.position
            save_snapshot(self.store, state, keep=self.options.snapshots_kept)
        self._snapshot_at = position

    def _sweep(self) -> None:
        timeout_s = self.options.timeout_s
        pause, cutoff = min(1.0, timeout_s / 4), TimeoutCutoff(timeout_s)
        while not self._stop.wait(pause):
            try:
                self._close_expired(cutoff)
            except StoreUnavailable:
                continue  # try again in the next round
            except Exception:
                _log.exception("could not close expired slates")

    def _tidy(self) -> None:
        pause = _FIRST_TIDY_S
        while not self._stop.wait(pause):
            pause = _TIDY_S
            try:
                self.tidy.once(self.clock.at_least(self.store.head().clock))
            except StoreUnavailable:
                continue  # try again in the next round
            except Exception:
                _log.exception("could not look after the store")

    def _close_expired(self, cutoff: TimeoutCutoff) -> None:
        """Close what is due; checked before the log is locked."""
        head, timeout_s = self.store.head(), self.options.timeout_s
        now = self.clock.at_least(head.clock)
        close = CloseOpen(timeout_s, self.options.learning, cutoff.position(head.position, now))
        found = sa.select(decisions.c.id).where(due(now, timeout_s, close.waited_to)).limit(1)
        while True:
            with self.store.reading() as connection:
                if connection.execute(found).first() is None:
                    return
            if self.writer.submit(close).result() < close.most:
                return
