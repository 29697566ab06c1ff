"""Write decisions: a slate before it is returned, its feedback, and its time-out.

Feedback is a click, a null or a typed query.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.learning import (
    OPEN,
    UNDELIVERED,
    Learning,
    timed_out,
)
from nextquery.service.log import events
from nextquery.service.log.new_arms import Caps, NewArmRules, Sighting, record_sighting
from nextquery.service.log.schema import decisions
from nextquery.service.log.store import AHEAD_S
from nextquery.service.log.writer import NOTHING, Needs, Transaction


class Written(NamedTuple):
    """The position of a recorded slate, or the decision that its request had before.

    Neither: the slate is *stale*. Its model had not read a block or a switch, so it must be made
    again.
    """

    position: int | None = None
    known: tuple[str, str] | None = None
    teaches: bool = True


@dataclass(frozen=True)
class NewDecision:
    """A slate, before it is answered."""

    id: str
    session_id: str
    body: events.DecisionEvent
    user_hash: str | None = None
    request_key: str | None = None
    request_hash: str | None = None
    owner: str = ""
    sighting: Sighting | None = None
    rules: NewArmRules = field(default_factory=NewArmRules)
    caps: Caps = field(default_factory=Caps)
    person: str | None = None

    def needs(self) -> Needs:
        """The request, to recognise a repetition; who typed this, and where."""
        return Needs(
            requests=() if self.request_key is None else (self.request_key,),
            users=() if self.user_hash is None else (self.user_hash,),
            sessions=() if self.user_hash is None else ((self.owner, self.session_id),),
            texts=() if self.sighting is None else (self.sighting.text_key,),
            teachers=((self.caps, self.owner, self.session_id, self.user_hash),),
        )

    def write(self, transaction: Transaction) -> Written:
        """Record the slate, unless its request was answered before or its model is stale."""
        if self.request_key is not None and self.request_key in transaction.requests:
            return Written(known=transaction.requests[self.request_key])
        if self.body.model_version < transaction.barrier:
            return Written()
        session = transaction.session_key(self.owner, self.session_id)
        if self.user_hash is not None:
            transaction.identities.join(self.user_hash, session)
        identity = transaction.identity(self.user_hash)
        teaches = transaction.teaching.allows(self.caps.of(self.owner, self.session_id, identity))
        body = self.body if teaches else replace(self.body, teaches=False)
        position = transaction.append(body, self.id)
        transaction.add_decision(
            self.id,
            self.body.arms,
            owner=self.owner,
            session_id=self.session_id,
            user_hash=self.user_hash,
            request_key=self.request_key,
            request_hash=self.request_hash,
            person=self.person,
        )
        if self.sighting is not None:
            record_sighting(
                transaction, self.sighting, self.rules, owner=self.owner, session=session
            )
        return Written(position, teaches=teaches)


def due(now: float, timeout_s: float, waited_to: int = 0) -> sa.ColumnElement[bool]:
    """Return the condition for open slates whose time is over.

    A slate from a machine with a wrong date may lie years ahead. It is due if it is at or before
    `waited_to`, a position that was in the log at least `timeout_s` ago.
    """
    expired = decisions.c.time <= now - timeout_s
    misdated = (decisions.c.time > now + AHEAD_S) & (decisions.c.position <= waited_to)
    return (decisions.c.state == OPEN.state) & (expired | misdated)


class TimeoutCutoff:
    """A position that was in the log at least one time-out ago, by this process's own clock.

    >>> ago = TimeoutCutoff(60.0)
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
            event = events.TimeoutEvent if row.delivered else events.UndeliveredEvent
            after = timed_out(row.arms, self.learning) if row.delivered else UNDELIVERED
            before = row.outcome
            transaction.append(
                event(old=before.rewards, new=after.rewards, state=after.state, was=before.state),
                id,
            )
            row.outcome, row.changed = after, True
        return len(ids)
