"""What an operator changes: blocks, the kill switch, and the model."""

from dataclasses import dataclass

from nextquery.service.log.events import ModelEvent
from nextquery.service.log.operators.changes import (
    Blocked,
    PatternAllowed,
    PatternBlocked,
    Switched,
    Unblocked,
)
from nextquery.service.log.operators.curation import Pinned, Unpinned
from nextquery.service.log.transaction import NOTHING, Needs, Transaction


@dataclass(frozen=True)
class Control:
    """A change that every later answer respects."""

    body: Blocked | Unblocked | PatternBlocked | PatternAllowed | Switched | Pinned | Unpinned

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the event, raise the barrier to it, and return its position."""
        position = transaction.append(self.body)
        transaction.raise_barrier()
        return position


@dataclass(frozen=True)
class NewModel:
    """The model that makes decisions from here on, for a pool of `arms` arms."""

    body: ModelEvent
    after: int
    arms: int

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int | None:
        """Append the event and return its position; None if `after` is not the newest model."""
        if transaction.model != self.after:
            return None
        transaction.next_arm = max(transaction.next_arm, self.arms)
        transaction.model = transaction.append(self.body)
        return transaction.model
