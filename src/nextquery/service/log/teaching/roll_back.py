"""Rolling the model back to a position, and forward again: what is in force, and the events."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.service.log.events import ModelEvent
from nextquery.service.log.operators.changes import By
from nextquery.service.log.operators.safety import RolledBack
from nextquery.service.log.schema import events
from nextquery.service.log.store import as_event
from nextquery.service.log.transaction import NOTHING, Needs, Transaction

Rolled = list[tuple[int, int]]
"""Roll-backs: the positions of their events, in order, and to where each goes."""


class RollBacks:
    """The roll-backs of a log.

    One to position P brings back what was in force at P: roll-backs that came later were not there,
    and those that ended later were. Undoing it brings back what was in force just before it.

    >>> roll_backs = RollBacks()
    >>> for position, to in ((200, 100), (300, 150)):
    ...     roll_backs.follow(position, RolledBack(to=to))
    >>> roll_backs.in_force  # at 150, nobody had rolled back yet
    [(300, 150)]
    >>> [roll_backs.leave_out(*places) for places in ((120, 120), (160, 120), (310, 305))]
    [False, True, False]
    """

    def __init__(self) -> None:
        self._since: list[tuple[int, Rolled]] = []  # what is in force from each position on

    @property
    def in_force(self) -> Rolled:
        """Those in force at the end."""
        return self._since[-1][1] if self._since else []

    def follow(self, position: int, body: RolledBack) -> None:
        """Take an event; one that is damaged changes nothing, see `event_checks`."""
        if body.undoes is not None:
            then = self._at(min(body.undoes, position) - 1)
        elif body.to is not None and body.to < position:
            then = [*self._at(body.to), (position, body.to)]
        else:
            return
        self._since.append((position, then))

    def leave_out(self, outcome: int, decision: int) -> bool:
        """Whether the outcome at one position of the decision at another teaches nothing."""
        return any(to < outcome and decision < position for position, to in self.in_force)

    def copy(self) -> "RollBacks":
        """Return an independent copy."""
        return self.from_state(self.state())

    def state(self) -> list[tuple[int, Rolled]]:
        """Return all of it, as JSON can say it."""
        return list(self._since)

    @classmethod
    def from_state(cls, state: Iterable[Sequence[Any]]) -> "RollBacks":
        """Restore what `state` returned."""
        self = cls()
        self._since = [(at, [(one, to) for one, to in then]) for at, then in state]
        return self

    def _at(self, position: int) -> Rolled:
        return next((then for at, then in reversed(self._since) if at <= position), [])


@dataclass(frozen=True)
class RollBack:
    """Make the model what it was at a position."""

    to: int
    by: By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the event, raise the barrier to it, and return its position."""
        transaction.flush()
        self._check(transaction)
        position = transaction.append(RolledBack(to=self.to, by=self.by))
        transaction.raise_barrier()
        return position

    def _check(self, transaction: Transaction) -> None:
        rows = sa.select(events).where(events.c.kind == ModelEvent.kind)
        models = transaction.connection.execute(rows.order_by(events.c.position)).all()
        first = models[0].position if models else 0
        if not models or not first <= self.to < transaction.position:
            raise InvalidInput(
                f"there is no model of position {self.to} to roll back to. Pass a position from "
                f"{first} to {transaction.position - 1}: those of decisions (model_version), of "
                "nextquery audit and of GET /v1/stats are positions."
            )
        for row in models:
            body = as_event(row).body
            if row.position > self.to and isinstance(body, ModelEvent) and body.continues is None:
                raise InvalidInput(
                    f"the model of position {self.to} cannot come back: that of position "
                    f"{row.position} began anew with the policy {body.policy}. Roll back to "
                    f"{row.position} or later, or set the policy that there was."
                )


@dataclass(frozen=True)
class Forward:
    """End the newest roll-back that is in force, as if it had never been."""

    by: By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the event, raise the barrier to it, and return its position."""
        transaction.flush()
        rows = sa.select(events).where(events.c.kind == RolledBack.kind)
        known = RollBacks()
        for row in transaction.connection.execute(rows.order_by(events.c.position)):
            body = as_event(row).body
            if isinstance(body, RolledBack):
                known.follow(row.position, body)
        if not known.in_force:
            raise InvalidInput("no roll-back is in force, so there is nothing to bring back.")
        newest, _ = known.in_force[-1]
        position = transaction.append(RolledBack(undoes=newest, by=self.by))
        transaction.raise_barrier()
        return position
