"""The learner: it reads the log event by event and keeps the state up to date.

Snapshots are states kept in the store, so that a restart need not read the whole log.
"""

import hashlib
import logging
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nextquery.arms import ArmPool
from nextquery.errors import Damaged
from nextquery.service.log.events import DecisionEvent, Event, ModelEvent
from nextquery.service.log.store import Store, as_event
from nextquery.service.model.catalogue import PoolOfLog, ServedCatalogue
from nextquery.service.model.experiments import Decided
from nextquery.service.model.state import FORESEEN, State, check

_log = logging.getLogger("nextquery.service")
_REMEMBERED = 10_000  # decisions kept in memory for their feedback
_STEP = 5_000  # events between two looks at whether to stop


class Learner:
    """The state at a position of a log, and how to bring it to later positions.

    An event is applied wholly or not at all, to the state and to the `catalogue` of the arms, if
    there is one: `arms` makes it as soon as the log comes to its pool. `swapped` is called with a
    state that takes the place of the one before, `changed` when the log changes to another pool.
    """

    def __init__(
        self,
        store: Store,
        state: State | None = None,
        *,
        remembered: int = _REMEMBERED,
        arms: PoolOfLog | None = None,
    ) -> None:
        self.store, self.state = store, State() if state is None else state
        self.catalogue = None if arms is None else arms.at(self.state)
        self.swapped: Callable[[State], None] = lambda state: None
        self.changed: Callable[[State], ServedCatalogue | None] = lambda state: (
            None if arms is None else arms.at(state)
        )
        self.lock = threading.RLock()  # held while the state changes
        self._reading = threading.Lock()  # one reader at a time, or events would be applied twice
        self._remembered = remembered
        self._decided: OrderedDict[str, Decided] = OrderedDict()

    @property
    def position(self) -> int:
        """The position up to which the log was read."""
        return self.state.position

    def catch_up(self, *, batch: int = 500, until: int | None = None) -> int:
        """Apply the events after the position, up to `until`; return how many there were."""
        with self._reading:
            return self._catch_up(batch, until)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Apply no event meanwhile."""
        with self._reading:
            yield

    def _catch_up(self, batch: int, until: int | None) -> int:
        count = 0
        while until is None or self.position < until:
            wanted = batch if until is None else min(batch, until - self.position)
            found = self.store.rows(self.position, wanted)
            for row in found:  # one that cannot be read does not hold up those before it
                self._apply_row(row)
            count += len(found)
            if len(found) < wanted:
                break
        return count

    def _apply_row(self, row: Any) -> None:
        """Apply the next event, or what an erasure has put in its place since it was read."""
        try:
            self.apply(as_event(row))
        except Damaged:
            now = self.store.rows(self.position, 1)
            if not now or now[0] == row:
                raise
            self.apply(as_event(now[0]))

    def apply(self, event: Event) -> None:
        """Apply the next event; if it cannot be applied, raise `Damaged` and change nothing.

        Only one thread applies events at a time. It checks an event, which may read the store,
        before it takes the lock that answers wait for.
        """
        check(event, self.state, self)
        if self.catalogue is not None:
            self.catalogue.check(event)
        pool = None if self.state.model_event is None else self.state.model_event.pool
        with self.lock:
            if isinstance(event.body, DecisionEvent) and event.decision_id is not None:
                decided = Decided.of(event.body, event.time, event.position)
                self._remember(event.decision_id, decided)
            self.state.apply(event, self)
            if isinstance(event.body, ModelEvent) and event.body.pool != pool:
                self._change_pool(event.body.pool)
            elif self.catalogue is not None:
                self.catalogue.follow(event)

    def _change_pool(self, pool: str) -> None:
        if self.catalogue is None or self.catalogue.digest != pool:
            self.catalogue = self.changed(self.state)

    def refresh(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Recompute a stale state from the start of the log, unless `stopped` on the way.

        The state goes on answering and following the log meanwhile, with what it had learnt.
        """
        while self.state.stale and not stopped():
            fresh = Learner(self.store, foreseeing(self.store, self.position))
            while fresh.position < self.position:
                if stopped():
                    return
                fresh.catch_up(until=min(self.position, fresh.position + _STEP))
            with self._reading:  # nothing is applied now, so both arrive at one position
                fresh.catch_up(until=self.position)
                if not fresh.state.stale:
                    with self.lock:
                        self.state = fresh.state
                        self.swapped(self.state)

    def decision(self, decision_id: str) -> Decided:
        """Return an earlier decision."""
        known = self._decided.get(decision_id)
        if known is not None:
            self._decided.move_to_end(decision_id)
            return known
        stored = self.store.decision(decision_id)
        if stored is None:
            raise Damaged(f"its decision {decision_id} is not in the log")
        decided = Decided.of(stored.body, stored.time, stored.position)
        self._remember(decision_id, decided)
        return decided

    def model(self, position: int) -> ModelEvent:
        """Return an earlier model event."""
        found = self.store.model(position)
        if found is None:
            raise Damaged(f"event {position} is not a model")
        return found

    def _remember(self, decision_id: str, decided: Decided) -> None:
        self._decided[decision_id] = decided
        while len(self._decided) > self._remembered:
            self._decided.popitem(last=False)


def foreseeing(store: Store, until: int) -> State:
    """Return an empty state that leaves out what the log leaves out up to a position."""
    state = State()
    state.foresee(store.of_kind(FORESEEN, until))
    return state


def rebuilt(
    store: Store,
    *,
    until: int | None = None,
    batch: int = 500,
    arms: PoolOfLog | None = None,
) -> State:
    """Recompute the state from the log alone, without snapshots."""
    head = store.head().position if until is None else until
    learner = Learner(store, foreseeing(store, head), arms=arms)
    learner.catch_up(batch=batch, until=head)
    return learner.state


def followed(pool: ArmPool, store: Store) -> ServedCatalogue:
    """Return the arms at the end of a log, with what is blocked and pinned."""
    learner = Learner(store, newest_state(store), arms=PoolOfLog(pool))
    learner.catch_up()
    assert learner.catalogue is not None  # the pool was checked
    return learner.catalogue


def save_snapshot(store: Store, state: State, *, keep: int) -> None:
    """Keep a state, and only the newest `keep` of them."""
    blob = state.to_bytes()
    store.save_snapshot(state.position, hashlib.sha256(blob).hexdigest(), blob, keep=keep)


def snapshot_is_whole(store: Store, position: int) -> bool:
    """Whether a snapshot has the bytes that were saved."""
    found = store.snapshot(position)
    return found is not None and hashlib.sha256(found[1]).hexdigest() == found[0]


def newest_state(store: Store) -> State:
    """Return the newest intact snapshot, or an empty state; warn about each damaged one."""
    for position in store.snapshot_positions():
        snapshot = store.snapshot(position)
        if snapshot is None:
            continue
        sha256, blob = snapshot
        if hashlib.sha256(blob).hexdigest() == sha256:
            try:
                return State.from_bytes(blob)
            except (KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
                why: object = error
        else:
            why = "its checksum does not match"
        _log.warning("skipping snapshot %d (%s); using an earlier one or the log", position, why)
    return State()
