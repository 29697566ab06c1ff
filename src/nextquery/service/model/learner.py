"""A learner reads the log and follows it, event by event."""

import hashlib
import logging
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable

from nextquery.errors import Damaged
from nextquery.service.log.arrays import Arrays, packed
from nextquery.service.log.store import Event, Store
from nextquery.service.model.state import Decided, State

_log = logging.getLogger("nextquery.service")
_REMEMBERED = 10_000  # decisions kept at hand for their feedback


class Learner:
    """The state at some position of a log, and the way to later ones.

    `follows` is told of every event after it was applied: so an engine keeps its pool in step.
    """

    def __init__(
        self,
        store: Store,
        state: State | None = None,
        *,
        remembered: int = _REMEMBERED,
        follows: Callable[[Event], None] | None = None,
    ) -> None:
        self.store, self.state = store, State() if state is None else state
        self.follows = follows
        self.lock = threading.RLock()  # held while the state changes
        self._reading = threading.Lock()  # one reader at a time, or events would come twice
        self._remembered = remembered
        self._decided: OrderedDict[str, Decided] = OrderedDict()

    @property
    def position(self) -> int:
        """How far the log was read."""
        return self.state.position

    def catch_up(self, *, batch: int = 500, until: int | None = None) -> int:
        """Apply what the log holds after the position, or up to `until`; how many events."""
        count = 0
        with self._reading:
            while until is None or self.position < until:
                wanted = batch if until is None else min(batch, until - self.position)
                found = self.store.read(self.position, wanted)
                for event in found:
                    self.apply(event)
                count += len(found)
                if len(found) < wanted:
                    break
        return count

    def apply(self, event: Event) -> None:
        """The next event."""
        with self.lock:
            if event.kind == "decision":
                assert event.decision_id is not None
                self._remember(event.decision_id, Decided.of(event.body, event.time))
            self.state.apply(event, self._decision)
            if self.follows is not None:
                self.follows(event)

    def _decision(self, decision_id: str) -> Decided:
        known = self._decided.get(decision_id)
        if known is not None:
            self._decided.move_to_end(decision_id)
            return known
        stored = self.store.decision(decision_id)
        if stored is None:
            raise Damaged(
                f"the log speaks of decision {decision_id}, which it does not hold. Restore the "
                "database from a backup."
            )
        decided = Decided.of(stored.body, stored.time)
        self._remember(decision_id, decided)
        return decided

    def _remember(self, decision_id: str, decided: Decided) -> None:
        self._decided[decision_id] = decided
        while len(self._decided) > self._remembered:
            self._decided.popitem(last=False)


def save_snapshot(store: Store, position: int, arrays: Arrays, *, keep: int) -> None:
    """Keep a state, so that a restart need not read the log from its start."""
    blob = packed(arrays)
    store.save_snapshot(position, hashlib.sha256(blob).hexdigest(), blob, keep=keep)


def newest_state(store: Store) -> State:
    """The newest sound snapshot, or an empty state; a damaged one is named in a warning."""
    for position in store.snapshot_positions():
        found = store.snapshot(position)
        if found is None:
            continue
        sha256, blob = found
        if hashlib.sha256(blob).hexdigest() == sha256:
            try:
                return State.from_bytes(blob)
            except (KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
                why: object = error
        else:
            why = "its bytes are not those that were written"
        _log.warning("snapshot %d cannot be used (%s); an older one or the log is", position, why)
    return State()


def rebuilt(store: Store, *, until: int | None = None, batch: int = 500) -> State:
    """The state recomputed from the log alone, without any snapshot."""
    learner = Learner(store)
    learner.catch_up(batch=batch, until=until)
    return learner.state
