"""The end of an erasure: what is left of a person beside their decisions, and the event."""

from dataclasses import dataclass, replace

import sqlalchemy as sa

from nextquery.service.log.erasure.erase import (
    begun,
    forget_names,
    forget_sightings,
    forget_teaching,
)
from nextquery.service.log.erasure.fallen import end
from nextquery.service.log.erasure.recount import NONE_MARKED, Marked, marked
from nextquery.service.log.erasure.who import Owned, Who
from nextquery.service.log.events import By, Erased, LeftOut, Void, parts, to_json
from nextquery.service.log.schema import arm_texts, counter, decisions, events, keys, sightings
from nextquery.service.log.store import as_event
from nextquery.service.log.writer import NOTHING, Needs, Transaction

_REFUSED = ("removed", "rejected")


@dataclass(frozen=True)
class ForgetTraces:
    """Erase what names somebody beside their decisions: a user or a session, with all sessions."""

    who: Who
    sessions: tuple[Owned, ...] = ()

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Erase it, and return how many rows and events there were."""
        transaction.flush()
        rows = self._named(transaction, self.who)
        if rows:
            begun(transaction)
            transaction.read_again()
        return rows

    def _named(self, transaction: Transaction, who: Who) -> int:
        connection = transaction.connection
        sessions = set(self.sessions)
        if who.session_id is not None:
            sessions |= {(owner, who.session_id) for owner in _owners(connection, who)}
        names = [transaction.session_key(*session) for session in sessions]
        users = [] if who.user_hash is None else [who.user_hash]
        if users and self._goes_on(connection, who):
            users = []  # the same id of another owner
        forget_teaching(
            connection,
            sessions,
            [(owner, user) for owner in _owners(connection, who) for user in users],
        )
        rows = forget_sightings(connection, sightings.c.session_key, names)
        rows += forget_sightings(connection, sightings.c.user_hash, users)
        rows += forget_names(connection, [*names, *users])
        return rows + _forget_leave_outs(connection, users)

    @staticmethod
    def _goes_on(connection: sa.Connection, who: Who) -> bool:
        """Whether the user is known to other owners than the one that is meant."""
        if who.owner is None:
            return False
        known = sa.select(decisions.c.id).where(decisions.c.user_hash == who.user_hash).limit(1)
        return connection.execute(known).first() is not None


@dataclass(frozen=True)
class EndArms:
    """End the arms that fell, from the next answer of every worker; return all texts that fell."""

    why: str
    by: By | None = None
    pool_arms: tuple[int, ...] = ()
    pool_texts: frozenset[str] = frozenset()  #: of these, and of others that are no arms any more

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> Marked:
        """Append the event, if there are such arms."""
        gone = marked(begun(transaction))
        text_keys = [transaction.text_key(text) for text in self.pool_texts]
        for part in parts(text_keys):  # those that an operator removed
            these = arm_texts.c.text_key.in_(part), arm_texts.c.min_users.is_(None)
            changed = sa.update(arm_texts).where(*these, arm_texts.c.state.in_(_REFUSED))
            transaction.connection.execute(changed.values(shown=""))
        arms = tuple(sorted({*gone.arms, *self.pool_arms}))
        if arms:
            _erased(transaction, Erased(why=self.why, arms=arms, by=self.by))
        return gone


@dataclass(frozen=True)
class EndErasure:
    """Append the event that makes every state be computed again; it is the last of an erasure.

    `due`: whether something was erased; else only if the store says so, of an earlier run.
    """

    why: str
    gone: Marked = NONE_MARKED
    by: By | None = None
    due: bool = False

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Write it if it is due; return its position, or 0."""
        transaction.flush()
        connection = transaction.connection
        unfinished = connection.execute(sa.select(counter.c.erasing)).scalar_one() is not None
        if not self.due and not unfinished:
            return 0
        begun(transaction)
        _empty_voids(connection)
        end(transaction, self.gone)
        position = _erased(transaction, Erased(why=self.why, by=self.by))
        connection.execute(sa.update(counter).values(erasing=None))
        transaction.read_again()
        return position


def _erased(transaction: Transaction, body: Erased) -> int:
    """Append the event; states from before it are no snapshots any more."""
    position = transaction.append(body)
    if body.arms:
        transaction.raise_barrier()
    transaction.flush()
    transaction.connection.execute(sa.update(counter).values(erased=position))
    return position


def _owners(connection: sa.Connection, who: Who) -> set[str]:
    if who.owner is not None:
        return {who.owner}
    return {"", *connection.execute(sa.select(keys.c.owner).distinct()).scalars()}


def _forget_leave_outs(connection: sa.Connection, users: list[str]) -> int:
    """Take a user out of the events that leave out decisions; what they leave out stays."""
    these = sa.select(events).where(events.c.kind == LeftOut.kind)
    count = 0
    for row in connection.execute(these).all() if users else ():
        body = as_event(row).body
        if isinstance(body, LeftOut) and body.user_hash in users:
            here = sa.update(events).where(events.c.position == row.position)
            connection.execute(here.values(body=to_json(replace(body, user_hash=None))))
            count += 1
    return count


def _empty_voids(connection: sa.Connection) -> None:
    """Empty the void events: what could not be read in them may be anybody's."""
    for row in connection.execute(sa.select(events).where(events.c.kind == Void.kind)).all():
        body = as_event(row).body
        if isinstance(body, Void) and body.body:
            here = sa.update(events).where(events.c.position == row.position)
            connection.execute(here.values(body=to_json(replace(body, body=""))))
