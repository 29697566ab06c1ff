"""Leaving out what some decisions taught, as if nobody had answered them."""

from dataclasses import dataclass

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.service.log.operators.changes import By, LeftOut
from nextquery.service.log.schema import decisions, events
from nextquery.service.log.store import as_event
from nextquery.service.log.transaction import NOTHING, Needs, Transaction


@dataclass(frozen=True)
class LeaveOut:
    """The decisions of a user, of a key owner, in a span of time, or of all three at once."""

    user_hash: str | None = None
    owner: str | None = None
    since: float | None = None
    until: float | None = None
    by: By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> LeftOut:
        """Append an event that names the decisions; None are an error."""
        transaction.flush()
        where: list[sa.ColumnElement[bool]] = []
        if self.user_hash is not None:
            where.append(decisions.c.user_hash == self.user_hash)
        if self.owner is not None:
            where.append(decisions.c.owner == self.owner)
        if self.since is not None:
            where.append(decisions.c.time >= self.since)
        if self.until is not None:
            where.append(decisions.c.time < self.until)
        if not where:
            raise InvalidInput("name a user, a key owner or a span of time to leave out.")
        found = sa.select(decisions.c.position).where(*where).order_by(decisions.c.position)
        positions = tuple(transaction.connection.execute(found).scalars())
        if not positions:
            raise InvalidInput(
                "the log has no decision like that, so nothing was left out. Check the user, the "
                "owner and the times; nextquery keys list shows the owners."
            )
        body = LeftOut(
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
    by: By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> LeftOut:
        """Append an event that undoes the one at `position`."""
        transaction.flush()
        here = sa.select(events).where(
            events.c.position == self.position, events.c.kind == LeftOut.kind
        )
        row = transaction.connection.execute(here).first()
        earlier = None if row is None else as_event(row).body
        if not isinstance(earlier, LeftOut) or earlier.undoes is not None:
            raise InvalidInput(
                f"event {self.position} leaves nothing out. nextquery leave-out --list shows the "
                "events that do."
            )
        body = LeftOut(undoes=self.position, by=self.by)
        transaction.append(body)
        return body
