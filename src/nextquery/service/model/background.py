"""Background work: reading the log, keeping snapshots, timing out slates, recomputing."""

import logging
import threading

import sqlalchemy as sa

from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.service.log.clock import Clock
from nextquery.service.log.schema import decisions
from nextquery.service.log.store import Store
from nextquery.service.log.timeouts import CloseOpen
from nextquery.service.log.writer import Writer
from nextquery.service.model.learner import Learner
from nextquery.service.model.snapshots import save_snapshot
from nextquery.service.settings.engine_options import EngineOptions

_log = logging.getLogger("nextquery.service")


class Background:
    """Threads that read the log and keep snapshots, close expired slates, and recompute.

    The last works only after an operator left out decisions; it does not hold up the others.
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

    def start(self, writer: Writer) -> None:
        """Start the threads."""
        self.writer = writer
        for work in (self._read, self._sweep, self._refresh):
            name = f"nextquery{work.__name__.replace('_', '-')}"
            self._threads.append(threading.Thread(target=work, name=name, daemon=True))
            self._threads[-1].start()

    def wake(self) -> None:
        """Read the log now, because it grew."""
        self._grown.set()

    def close(self) -> None:
        """Stop the threads, read the log to its end, and keep a snapshot."""
        self._stop.set()
        self._grown.set()
        self._stale.set()
        for thread in self._threads:
            thread.join()
        try:
            self.learner.catch_up()
            self._snapshot()
        except NextqueryError as error:  # nothing is lost: a restart reads the log
            _log.warning("could not save the last snapshot: %s", error)

    def _read(self) -> None:
        while not self._stop.is_set():
            self._grown.wait(self.options.poll_s)
            self._grown.clear()
            try:
                self.learner.catch_up()
                if self.learner.state.stale:
                    self._stale.set()
                if self.learner.position - self._snapshot_at >= self.options.snapshot_every:
                    self._snapshot()
                self.error = None
            except Exception as error:  # keep answering; the health routes report it
                if self.error is None:
                    _log.error("cannot read the log: %s", error)
                self.error = error
                self._stop.wait(0.5)

    def _refresh(self) -> None:
        while self._stale.wait() and not self._stop.is_set():
            self._stale.clear()
            try:
                self.learner.refresh(self._stop.is_set)
            except Exception as error:  # the reader sees that the state is stale, and asks again
                _log.error("cannot recompute the model: %s", error)
                self._stop.wait(0.5)

    def _snapshot(self) -> None:
        """Save a snapshot, unless another worker saved one that is about as new."""
        newest = max(self.store.snapshot_positions(), default=0)
        position = self.learner.position
        closing = self._stop.is_set()
        near = newest if closing else newest + self.options.snapshot_every // 2
        if near < position:
            with self.learner.lock:
                state = self.learner.state.copy()
            if state.stale:
                return
            position = state.position
            save_snapshot(self.store, position, state.arrays(), keep=self.options.snapshots_kept)
        self._snapshot_at = position

    def _sweep(self) -> None:
        pause = min(1.0, self.options.timeout_s / 4)
        close = CloseOpen(self.options.timeout_s, self.options.learning)
        while not self._stop.wait(pause):
            try:
                while self._due() and self.writer.submit(close).result() >= close.most:
                    continue
            except StoreUnavailable:
                continue  # try again in the next round
            except Exception:
                _log.exception("could not close expired slates")

    def _due(self) -> bool:
        """Whether any slate has expired; checked before the log is locked."""
        now = self.clock.at_least(self.store.head().clock)
        old = (decisions.c.state == "open", decisions.c.time <= now - self.options.timeout_s)
        with self.store.reading() as connection:
            found = sa.select(decisions.c.id).where(*old).limit(1)
            return connection.execute(found).first() is not None
