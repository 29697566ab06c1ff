"""Closing slates that got no answer in time."""

from dataclasses import dataclass

import sqlalchemy as sa

from nextquery.outcomes import OPEN, UNDELIVERED, Learning, timed_out
from nextquery.service.log.events import TimeoutEvent, UndeliveredEvent
from nextquery.service.log.schema import decisions
from nextquery.service.log.transaction import NOTHING, Needs, Transaction


@dataclass(frozen=True)
class CloseOpen:
    """Close open slates older than `timeout_s`: failed if they were delivered, else undelivered."""

    timeout_s: float
    learning: Learning
    most: int = 500

    def needs(self) -> Needs:
        """Nothing in advance."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Close the slates that are due and return how many there were."""
        transaction.flush()
        old = sa.select(decisions.c.id).where(
            decisions.c.state == OPEN.state, decisions.c.time <= transaction.time - self.timeout_s
        )
        due = list(
            transaction.connection.execute(
                old.order_by(decisions.c.time).limit(self.most)
            ).scalars()
        )
        transaction.fetch([Needs(decisions=[id for id in due if id not in transaction.rows])])
        for id in due:
            row = transaction.rows[id]
            event = TimeoutEvent if row.delivered else UndeliveredEvent
            after = timed_out(row.arms, self.learning) if row.delivered else UNDELIVERED
            before = row.outcome
            transaction.append(
                event(old=before.rewards, new=after.rewards, state=after.state, was=before.state),
                id,
            )
            row.outcome, row.changed = after, True
        return len(due)
