"""Operators' corrections of what the model learns: fall back, leave out, roll back.

- Falling back serves the most similar queries, until an operator ends it.
- Leaving out removes what some decisions taught, as if they had no answer.
- Rolling back returns the model to a position, and forward again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.service.log import events, schema
from nextquery.service.log.store import as_event
from nextquery.service.log.writer import NOTHING, Needs, Transaction

_POLICY_EVENTS = (
    events.PolicyFallback.kind,
    events.FallbackEnded.kind,
    events.RolledBack.kind,
    events.ModelEvent.kind,
)
"""After one of these, an alarm may no longer hold."""


@dataclass(frozen=True)
class StartFallback:
    """Let the sessions of a policy get the most similar queries.

    `seen` is the position that whoever found it worse had read to.
    """

    body: events.PolicyFallback
    seen: int

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int | None:
        """Append the event and return its position; None if the log has news since `seen`."""
        transaction.flush()
        later_events = sa.select(schema.events.c.position).where(
            schema.events.c.kind.in_(_POLICY_EVENTS), schema.events.c.position > self.seen
        )
        if transaction.connection.execute(later_events.limit(1)).first() is not None:
            return None
        position = transaction.append(self.body)
        transaction.raise_barrier()
        return position


@dataclass(frozen=True)
class EndFallback:
    """Let a policy that fell back answer again; without a name, all of them."""

    by: events.By | None = None
    policy: str | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append an event for each, raise the barrier, and return the last position."""
        transaction.flush()
        kinds = (events.PolicyFallback.kind, events.FallbackEnded.kind)
        rows = (
            sa.select(schema.events)
            .where(schema.events.c.kind.in_(kinds))
            .order_by(schema.events.c.position)
        )
        in_fallback: dict[str, None] = {}
        for row in transaction.connection.execute(rows):
            body = as_event(row).body
            if isinstance(body, events.PolicyFallback):
                in_fallback[body.policy] = None
            elif isinstance(body, events.FallbackEnded):
                in_fallback.pop(body.policy, None)
        if not in_fallback:
            raise InvalidInput("no policy has fallen back, so there is nothing to end.")
        if self.policy not in (None, *in_fallback):
            raise InvalidInput(
                f"{self.policy!r} has not fallen back. Name one of these, or none for all of them: "
                f"{', '.join(in_fallback)}."
            )
        for policy in in_fallback if self.policy is None else (self.policy,):
            transaction.append(events.FallbackEnded(policy=policy, by=self.by))
        transaction.raise_barrier()
        return transaction.position


@dataclass(frozen=True)
class LeaveOut:
    """The decisions of a user, of a key owner, in a span of time, or of all three at once."""

    user_hash: str | None = None
    owner: str | None = None
    since: float | None = None
    until: float | None = None
    by: events.By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> events.LeftOut:
        """Append an event that names the decisions; None are an error."""
        transaction.flush()
        where: list[sa.ColumnElement[bool]] = []
        if self.user_hash is not None:
            where.append(schema.decisions.c.user_hash == self.user_hash)
        if self.owner is not None:
            where.append(schema.decisions.c.owner == self.owner)
        if self.since is not None:
            where.append(schema.decisions.c.time >= self.since)
        if self.until is not None:
            where.append(schema.decisions.c.time < self.until)
        if not where:
            raise InvalidInput("name a user, a key owner or a span of time to leave out.")
        found = (
            sa.select(schema.decisions.c.position)
            .where(*where)
            .order_by(schema.decisions.c.position)
        )
        positions = tuple(transaction.connection.execute(found).scalars())
        if not positions:
            raise InvalidInput(
                "the log has no decision like that, so nothing was left out. Check the user, the "
                "owner and the times; nextquery keys list shows the owners."
            )
        body = events.LeftOut(
            decisions=positions,
            user_hash=self.user_hash,
            owner=self.owner,
            since=self.since,
            until=self.until,
            by=self.by,
        )
        transaction.append(body)
        return body


@dataclass(frozen=True)
class TakeBackIn:
    """An end to what an earlier event left out."""

    position: int
    by: events.By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> events.LeftOut:
        """Append an event that undoes the one at `position`."""
        transaction.flush()
        here = sa.select(schema.events).where(
            schema.events.c.position == self.position, schema.events.c.kind == events.LeftOut.kind
        )
        row = transaction.connection.execute(here).first()
        earlier = None if row is None else as_event(row).body
        if not isinstance(earlier, events.LeftOut) or earlier.undoes is not None:
            raise InvalidInput(
                f"event {self.position} leaves nothing out. nextquery leave-out --list shows the "
                "events that do."
            )
        body = events.LeftOut(undoes=self.position, by=self.by)
        transaction.append(body)
        return body


Rolled = list[tuple[int, int]]
"""Roll-backs: the positions of their events, in order, and to where each goes."""


class RollBacks:
    """The roll-backs of a log.

    One to position P brings back what was in force at P: roll-backs that came later were not there,
    and those that ended later were. Undoing it brings back what was in force just before it.

    >>> roll_backs = RollBacks()
    >>> for position, to in ((200, 100), (300, 150)):
    ...     roll_backs.follow(position, events.RolledBack(to=to))
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

    def follow(self, position: int, body: events.RolledBack) -> None:
        """Take an event; one that is damaged changes nothing, see `service.model.state.check`."""
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
    by: events.By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the event, raise the barrier to it, and return its position."""
        transaction.flush()
        self._check(transaction)
        position = transaction.append(events.RolledBack(to=self.to, by=self.by))
        transaction.raise_barrier()
        return position

    def _check(self, transaction: Transaction) -> None:
        rows = sa.select(schema.events).where(schema.events.c.kind == events.ModelEvent.kind)
        models = transaction.connection.execute(rows.order_by(schema.events.c.position)).all()
        first = models[0].position if models else 0
        if not models or not first <= self.to < transaction.position:
            raise InvalidInput(
                f"there is no model of position {self.to} to roll back to. Pass a position from "
                f"{first} to {transaction.position - 1}: those of decisions (model_version), of "
                "nextquery audit and of GET /v1/stats are positions."
            )
        for row in models:
            body = as_event(row).body
            if (
                row.position > self.to
                and isinstance(body, events.ModelEvent)
                and body.continues is None
            ):
                raise InvalidInput(
                    f"the model of position {self.to} cannot come back: that of position "
                    f"{row.position} began anew with the policy {body.policy}. Roll back to "
                    f"{row.position} or later, or set the policy that there was."
                )


@dataclass(frozen=True)
class Forward:
    """End the newest roll-back that is in force, as if it had never been."""

    by: events.By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the event, raise the barrier to it, and return its position."""
        transaction.flush()
        rows = sa.select(schema.events).where(schema.events.c.kind == events.RolledBack.kind)
        known = RollBacks()
        for row in transaction.connection.execute(rows.order_by(schema.events.c.position)):
            body = as_event(row).body
            if isinstance(body, events.RolledBack):
                known.follow(row.position, body)
        if not known.in_force:
            raise InvalidInput("no roll-back is in force, so there is nothing to bring back.")
        newest, _ = known.in_force[-1]
        position = transaction.append(events.RolledBack(undoes=newest, by=self.by))
        transaction.raise_barrier()
        return position
