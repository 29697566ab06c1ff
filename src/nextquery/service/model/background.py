"""What goes on by itself: reading the log, snapshots, time-outs."""

import logging
import threading

import sqlalchemy as sa

from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.service.log.clock import Clock
from nextquery.service.log.feedback import CloseOpen
from nextquery.service.log.schema import decisions
from nextquery.service.log.store import Store
from nextquery.service.log.writer import Writer
from nextquery.service.model.learner import Learner, save_snapshot
from nextquery.service.settings.engine_options import EngineOptions

_log = logging.getLogger("nextquery.service")


class Chores:
    """Two threads: one reads the log and keeps snapshots, one closes slates that had their time."""

    def __init__(
        self, learner: Learner, store: Store, options: EngineOptions, clock: Clock
    ) -> None:
        self.learner, self.store, self.options, self.clock = learner, store, options, clock
        self.trouble: Exception | None = None
        self._grown, self._stop = threading.Event(), threading.Event()
        self._snapshot_at = learner.position
        self._threads: list[threading.Thread] = []

    def start(self, writer: Writer) -> None:
        """Begin."""
        self.writer = writer
        for work in (self._read, self._sweep):
            name = f"nextquery{work.__name__.replace('_', '-')}"
            self._threads.append(threading.Thread(target=work, name=name, daemon=True))
            self._threads[-1].start()

    def wake(self) -> None:
        """The log grew."""
        self._grown.set()

    def close(self) -> None:
        """Stop, read the log to its end, and keep a snapshot."""
        self._stop.set()
        self._grown.set()
        for thread in self._threads:
            thread.join()
        try:
            self.learner.catch_up()
            self._snapshot()
        except NextqueryError as error:  # the log holds everything; a restart reads it again
            _log.warning("no snapshot was kept at the end: %s", error)

    def _read(self) -> None:
        while not self._stop.is_set():
            self._grown.wait(self.options.poll_s)
            self._grown.clear()
            try:
                self.learner.catch_up()
                if self.learner.position - self._snapshot_at >= self.options.snapshot_every:
                    self._snapshot()
                self.trouble = None
            except Exception as error:  # the service answers on; health tells
                if self.trouble is None:
                    _log.error("the log cannot be read on: %s", error)
                self.trouble = error
                self._stop.wait(0.5)

    def _snapshot(self) -> None:
        """Keep the state, unless another worker has kept one that is about as new."""
        newest = max(self.store.snapshot_positions(), default=0)
        position = self.learner.position
        closing = self._stop.is_set()
        near = newest if closing else newest + self.options.snapshot_every // 2
        if near < position:
            with self.learner.lock:
                position, arrays = self.learner.position, self.learner.state.arrays()
            save_snapshot(self.store, position, arrays, keep=self.options.snapshots_kept)
        self._snapshot_at = position

    def _sweep(self) -> None:
        pause = min(1.0, self.options.timeout_s / 4)
        item = CloseOpen(self.options.timeout_s, self.options.learning)
        while not self._stop.wait(pause):
            try:
                while self._due() and self.writer.submit(item).result() >= item.most:
                    continue
            except StoreUnavailable:
                continue  # the next round tries again
            except Exception:
                _log.exception("slates that had their time could not be closed")

    def _due(self) -> bool:
        """Whether any slate has had its time: looked up first, so that nothing is locked idly."""
        now = self.clock.at_least(self.store.head().clock)
        old = (decisions.c.state == "open", decisions.c.time <= now - self.options.timeout_s)
        with self.store.reading() as connection:
            found = sa.select(decisions.c.id).where(*old).limit(1)
            return connection.execute(found).first() is not None
