"""Falling back to the most similar queries, and ending that."""

from dataclasses import dataclass

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.service.log.events import ModelEvent
from nextquery.service.log.operators.changes import By
from nextquery.service.log.operators.safety import FallbackEnded, FellBack, RolledBack
from nextquery.service.log.schema import events
from nextquery.service.log.store import as_event
from nextquery.service.log.transaction import NOTHING, Needs, Transaction

_NEWS = (FellBack.kind, FallbackEnded.kind, RolledBack.kind, ModelEvent.kind)
"""After one of these, an alarm may no longer hold."""


@dataclass(frozen=True)
class FallBack:
    """Let the sessions of a policy get the most similar queries.

    `seen` is the position that whoever found it worse had read to.
    """

    body: FellBack
    seen: int

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int | None:
        """Append the event and return its position; None if the log has news since `seen`."""
        transaction.flush()
        news = sa.select(events.c.position).where(
            events.c.kind.in_(_NEWS), events.c.position > self.seen
        )
        if transaction.connection.execute(news.limit(1)).first() is not None:
            return None
        position = transaction.append(self.body)
        transaction.raise_barrier()
        return position


@dataclass(frozen=True)
class EndFallback:
    """Let a policy that fell back answer again; without a name, all of them."""

    by: By | None = None
    policy: str | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append an event for each, raise the barrier, and return the last position."""
        transaction.flush()
        kinds = (FellBack.kind, FallbackEnded.kind)
        rows = sa.select(events).where(events.c.kind.in_(kinds)).order_by(events.c.position)
        fallen: dict[str, None] = {}
        for row in transaction.connection.execute(rows):
            body = as_event(row).body
            if isinstance(body, FellBack):
                fallen[body.policy] = None
            elif isinstance(body, FallbackEnded):
                fallen.pop(body.policy, None)
        if not fallen:
            raise InvalidInput("no policy has fallen back, so there is nothing to end.")
        if self.policy not in (None, *fallen):
            raise InvalidInput(
                f"{self.policy!r} has not fallen back. Name one of these, or none for all of them: "
                f"{', '.join(fallen)}."
            )
        for policy in fallen if self.policy is None else (self.policy,):
            transaction.append(FallbackEnded(policy=policy, by=self.by))
        transaction.raise_barrier()
        return transaction.position
