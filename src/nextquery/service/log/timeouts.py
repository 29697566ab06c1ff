"""Closing slates that got no answer in time."""

from dataclasses import dataclass

import sqlalchemy as sa

from nextquery.learning import OPEN, UNDELIVERED, Learning, timed_out
from nextquery.service.log.clock import AHEAD_S
from nextquery.service.log.events import TimeoutEvent, UndeliveredEvent
from nextquery.service.log.schema import decisions
from nextquery.service.log.transaction import NOTHING, Needs, Transaction


def due(now: float, timeout_s: float, waited_to: int = 0) -> sa.ColumnElement[bool]:
    """Return the condition for open slates whose time is over.

    A slate from a machine with a wrong date may lie years ahead. It is due if it is at or before
    `waited_to`, a position that was in the log at least `timeout_s` ago.
    """
    expired = decisions.c.time <= now - timeout_s
    misdated = (decisions.c.time > now + AHEAD_S) & (decisions.c.position <= waited_to)
    return (decisions.c.state == OPEN.state) & (expired | misdated)


class OneTimeoutAgo:
    """A position that was in the log at least one time-out ago, by this process's own clock.

    >>> ago = OneTimeoutAgo(60.0)
    >>> [ago.position(head, now) for head, now in ((5, 0.0), (8, 59.0), (9, 60.0), (9, 120.0))]
    [0, 0, 5, 9]
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._waited_to, self._next, self._since = 0, 0, float("inf")

    def position(self, head: int, now: float) -> int:
        """Return the position, given the end of the log and the time."""
        if now < self._since:  # the first call, or the clock went back
            self._next, self._since = head, now
        elif now - self._since >= self._timeout_s:
            self._waited_to, self._next, self._since = self._next, head, now
        return self._waited_to


@dataclass(frozen=True)
class CloseOpen:
    """Close open slates that are `due`: failed if they were delivered, else undelivered."""

    timeout_s: float
    learning: Learning
    waited_to: int = 0
    most: int = 500

    def needs(self) -> Needs:
        """Nothing in advance."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Close the slates that are due and return how many there were."""
        transaction.flush()
        old = sa.select(decisions.c.id).where(due(transaction.time, self.timeout_s, self.waited_to))
        ids = list(
            transaction.connection.execute(
                old.order_by(decisions.c.time).limit(self.most)
            ).scalars()
        )
        transaction.fetch([Needs(decisions=[id for id in ids if id not in transaction.rows])])
        for id in ids:
            row = transaction.rows[id]
            event = TimeoutEvent if row.delivered else UndeliveredEvent
            after = timed_out(row.arms, self.learning) if row.delivered else UNDELIVERED
            before = row.outcome
            transaction.append(
                event(old=before.rewards, new=after.rewards, state=after.state, was=before.state),
                id,
            )
            row.outcome, row.changed = after, True
        return len(ids)
