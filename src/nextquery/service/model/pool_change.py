"""A running service follows its pool folder: all workers change to an updated pool together.

Each worker looks at the manifest from time to time. One of them, which holds a lease, announces
the new pool and computes its model. Meanwhile all workers open the pool and assign its rows to
the ids of the log. The event of the model then changes the pool everywhere at one position of the
log. A worker that is not ready at that position answers nothing until it is.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.arms.pool import fingerprint
from nextquery.arms.remap import IdMap
from nextquery.errors import Damaged, InvalidInput, NextqueryError, StoreUnavailable
from nextquery.loop import Loop
from nextquery.service.log.events import ModelEvent, PoolAnnounced
from nextquery.service.log.operators import LEASE_S, EndLease, TakeLease
from nextquery.service.log.store import Store
from nextquery.service.model.catalogue import PoolOfLog, ServedCatalogue
from nextquery.service.model.learner import Learner, newest_state
from nextquery.service.model.prepare import (
    POOL_LEASE,
    PoolChange,
    Submit,
    first_model,
    loop_of,
    not_its_pool,
)
from nextquery.service.model.state import State
from nextquery.service.settings import EngineOptions

_log = logging.getLogger("nextquery.service")
_LOOK_S = 0.5  # between two looks while something is under way
_STEP = 500  # events read at once


class Opened(NamedTuple):
    """A pool that is ready to be served at a position, or soon after it."""

    pool: ArmPool
    catalogue: ServedCatalogue
    loop: Loop
    position: int
    runs: tuple[tuple[int, int], ...]

    @property
    def digest(self) -> str:
        """The fingerprint of the pool."""
        return self.catalogue.digest


class PoolFollower:
    """Serves what is in the folder of the pool.

    Parameters
    ----------
    learner : the reader of the log.
    options : the settings.
    submit : writes a change and waits for it.
    open_pool : opens the folder as it is now.
    use : puts a pool in the place of the one that is served, called with the state locked.
    served : the pool that is served at the start.
    ready : set while the pool of the log is served here.
    """

    def __init__(
        self,
        learner: Learner,
        options: EngineOptions,
        submit: Submit,
        open_pool: Callable[[], ArmPool] | None,
        use: Callable[[Opened], None],
        served: ArmPool,
        *,
        ready: threading.Event,
    ) -> None:
        self.learner, self.options, self._submit = learner, options, submit
        self._open, self._use, self.ready = open_pool, use, ready
        self.problem = ""  #: why the pool in the folder is not served
        self.digest = fingerprint(served)
        self._wake, self._stop = threading.Event(), threading.Event()
        self._holder = uuid4().hex
        self._next: Opened | None = None
        self._again = self._busy = False
        self._refused: tuple[folders.Folder | None, int] | None = None
        self._served = self._seen = served.folder

    def run(self) -> None:
        """Look again and again, until the service stops."""
        pause = self.options.pool_check_s or None
        while not self._stop.is_set():
            self._wake.wait(_LOOK_S if self._busy or not self.ready.is_set() else pause)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                self.look()
            except StoreUnavailable:
                continue  # the next look tries again
            except (NextqueryError, OSError) as error:
                self._log_problem(str(error))
            except Exception as error:
                _log.exception("could not take the new pool over")
                self._log_problem(f"{type(error).__name__}: {error}")

    def _log_problem(self, problem: str) -> None:
        self._busy = False
        if problem != self.problem:
            _log.error("the pool in the folder is not served: %s", problem)
        self.problem = problem

    def look(self) -> None:
        """Serve what is in the folder by now; returns at once if that is served."""
        if self._seen is None or self._open is None:
            return
        idle = self.ready.is_set() and not self._again and not self._busy
        if idle and folders.newest(self._seen) == self._seen:
            return
        pool, position = self._open(), self.learner.state.model
        model = self.learner.model(position)
        digest = fingerprint(pool)
        if digest == model.pool:
            remapped = self._again and bool(model.runs)
            if remapped or pool.folder != self._served or digest != self.digest:
                self._serve(pool, model)
            self._seen, self._busy, self._again = pool.folder, False, False
            self.problem = ""
            return
        if self._refused == (pool.folder, position):
            return
        try:
            self._next_pool(pool, model, position, digest)
        except (InvalidInput, Damaged):
            self._refused = pool.folder, position  # it stays so until one of them changes
            raise

    def _next_pool(self, pool: ArmPool, model: ModelEvent, position: int, digest: str) -> None:
        if not self.ready.is_set():
            raise InvalidInput(
                f"the log is at the pool {model.pool[:12]}, and the folder has {digest[:12]}. Put "
                "the pool that the other workers have into this folder too."
            )
        self._change(PoolChange.to(pool, model, position, self.learner.store.name))

    def arrive(self, state: State) -> ServedCatalogue | None:
        """Change to the pool of the model in force, if it is ready; the state is locked."""
        model, ready = state.model_event, self._next
        assert model is not None
        if ready is None or ready.digest != model.pool or ready.runs != _runs(model):
            self.ready.clear()
            self._wake.set()
            return None
        self._catch_up(ready, state.position - 1)
        self._put(ready)
        return ready.catalogue

    def again(self) -> None:
        """Open the same pool again: an erasure changed what of it may be served."""
        self._again = True
        self._wake.set()

    def announced(self, announced: PoolAnnounced | None) -> None:
        """Look now, if a pool was announced that is not ready yet."""
        if announced is not None and (self._next is None or self._next.digest != announced.pool):
            self._wake.set()

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()
        self._wake.set()

    def _put(self, ready: Opened) -> None:
        ready.catalogue.encodes = False
        ready.loop.use(self.learner.state.model_state)
        self._use(ready)
        self.digest, self._served, self._next = ready.digest, ready.pool.folder, None
        self.ready.set()

    def _serve(self, pool: ArmPool, model: ModelEvent) -> None:
        """Serve a pool of the same rows: that of the log, or the same with fewer texts."""
        ready = self._opened(pool, IdMap.of(model.runs, pool.rows_in_all))
        with self.learner.paused():
            state = self.learner.state
            now = state.model_event
            if now is None or now.pool != model.pool:
                return  # the next look sees it
            self._catch_up(ready, state.position)
            with self.learner.lock:
                self._put(ready)
                self.learner.catalogue = ready.catalogue

    def _opened(self, pool: ArmPool, layout: IdMap, change: PoolChange | None = None) -> Opened:
        with self.learner.lock:
            state = self.learner.state.copy()
        minimums = self.options.minimums
        if change is None:
            catalogue = ServedCatalogue.at(pool, state, layout, minimums=minimums)
        else:
            catalogue = change.catalogue(state, layout, minimums)
        loop = loop_of(catalogue, self.options, state.model_state)
        runs = () if layout.is_plain else layout.runs
        return Opened(pool, catalogue, loop, state.position, runs)

    def _catch_up(self, ready: Opened, until: int) -> None:
        """Let the arms of a pool follow the log."""
        position = ready.position
        while position < until:
            found = self.learner.store.read(position, min(_STEP, until - position))
            for event in found:
                ready.catalogue.follow(event)
            position = found[-1].position

    def _change(self, change: PoolChange) -> None:
        """Make the pool ready; who holds the lease changes the log to it."""
        with self.learner.lock:
            lost = change.loses(self.learner.state, self.options.new_policies())
        if lost:
            raise InvalidInput(
                f"it was encoded anew, and {lost} live updates mean nothing with other vectors. To "
                "forget them, stop the service and run: nextquery serve --forget."
            )
        if not self.options.pool_check_s and change.layout(self.learner.state.announced) is None:
            return
        self._busy = True
        same = change.last.settings == self.options.of_the_model()
        may_lead = same and bool(self.options.pool_check_s)
        holds = may_lead and self._submit(TakeLease(POOL_LEASE, self._holder, LEASE_S))
        try:
            layout = change.layout(self.learner.state.announced)
            if layout is None and holds:
                change.pool.verify()
                layout = change.announce(self._submit)
                self.learner.catch_up()
            if layout is None:
                return  # another worker announces it
            begin = time.monotonic()
            if self._next is None or self._next.digest != change.digest:
                self._next = self._opened(change.pool, layout, change)
                _log.info("a new pool is ready: %d arms", len(self._next.catalogue.pool))
            if holds:
                self._lead(change, layout, self._next, 2 * (time.monotonic() - begin))
        finally:
            if holds:
                with suppress(StoreUnavailable):  # else it ends by itself
                    self._submit(EndLease(POOL_LEASE, self._holder))

    def _lead(self, change: PoolChange, layout: IdMap, ready: Opened, others_s: float) -> None:
        """Compute the model of a pool and change to it; other workers get time to be ready."""
        begin = renewed = time.monotonic()

        def alive(*_: Any) -> None:
            nonlocal renewed
            if time.monotonic() - renewed > LEASE_S / 4:
                renewed = time.monotonic()
                self._submit(TakeLease(POOL_LEASE, self._holder, LEASE_S))

        arms = ready.catalogue.pool
        body = first_model(arms, self.options, alive, digest=change.digest)
        while time.monotonic() - begin < others_s + 2 * self.options.poll_s:
            alive()
            if self._stop.wait(self.options.poll_s / 2):
                return
        folder = change.pool.folder
        if folder is not None and folders.newest(folder) != folder:
            return  # it was written again: the next look begins anew
        position = change.write(body, layout, self.learner.store, self._submit)
        if position is not None:
            _log.info("the pool was changed at position %d of the log", position)
        self.learner.catch_up()


def _runs(model: ModelEvent) -> tuple[tuple[int, int], ...]:
    return tuple((int(row), int(id)) for row, id in model.runs)


_TRIES = 3  # how often a pool may be updated while it is opened


def open_again(pool: ArmPool) -> Callable[[], ArmPool] | None:
    """Return what opens the folder of a pool as it is by then; None if the pool has no folder."""
    folder = pool.folder
    if folder is None or type(pool) is not ArmPool:
        return None
    path = folder.path
    return lambda: ArmPool.open(path)


def reader_of(
    pool: ArmPool, store: Store, options: EngineOptions, opener: Callable[[], ArmPool] | None
) -> tuple[ArmPool, Learner, ServedCatalogue]:
    """Read a log to its end; if its pool is newer than `pool` by now, open it again."""
    for _ in range(_TRIES):
        learner = Learner(store, newest_state(store), arms=PoolOfLog(pool, **options.minimums))
        learner.catch_up()
        learner.refresh()
        if learner.catalogue is not None:
            return pool, learner, learner.catalogue
        if opener is None:
            break
        pool = opener()
    raise not_its_pool(store.name)
