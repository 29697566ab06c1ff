"""The learner: it reads the log event by event and keeps the state up to date."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from nextquery.errors import Damaged
from nextquery.service.log.events import DecisionEvent, Event
from nextquery.service.log.store import Store
from nextquery.service.model.state import Decided, State

_REMEMBERED = 10_000  # decisions kept in memory for their feedback


class Learner:
    """The state at a position of a log, and how to bring it to later positions.

    `follows` is called with every event after it was applied; an engine keeps its pool in step
    with it.
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
        self._reading = threading.Lock()  # one reader at a time, or events would be applied twice
        self._remembered = remembered
        self._decided: OrderedDict[str, Decided] = OrderedDict()

    @property
    def position(self) -> int:
        """The position up to which the log was read."""
        return self.state.position

    def catch_up(self, *, batch: int = 500, until: int | None = None) -> int:
        """Apply the events after the position, up to `until`; return how many there were."""
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
        """Apply the next event."""
        with self.lock:
            if isinstance(event.body, DecisionEvent) and event.decision_id is not None:
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
                f"the log refers to decision {decision_id}, which it does not contain. Restore the "
                "database from a backup."
            )
        decided = Decided.of(stored.body, stored.time)
        self._remember(decision_id, decided)
        return decided

    def _remember(self, decision_id: str, decided: Decided) -> None:
        self._decided[decision_id] = decided
        while len(self._decided) > self._remembered:
            self._decided.popitem(last=False)


def rebuilt(store: Store, *, until: int | None = None, batch: int = 500) -> State:
    """Recompute the state from the log alone, without snapshots."""
    learner = Learner(store)
    learner.catch_up(batch=batch, until=until)
    return learner.state
