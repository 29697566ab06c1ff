"""Erasing decisions: tombstones in the log, and nothing of them in the tables."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.service.log.erasure.recount import count_again
from nextquery.service.log.events import (
    DecisionEvent,
    FeedbackEvent,
    Forgotten,
    TimeoutEvent,
    UndeliveredEvent,
    parts,
    to_json,
)
from nextquery.service.log.new_arms import names_of
from nextquery.service.log.schema import (
    counter,
    decisions,
    events,
    identities,
    sightings,
    snapshots,
    teaching,
)
from nextquery.service.log.writer import NOTHING, Needs, Transaction

_OF_DECISIONS = [
    kind.kind for kind in (DecisionEvent, FeedbackEvent, TimeoutEvent, UndeliveredEvent)
]


class Gone(NamedTuple):
    """How many decisions and events were erased."""

    decisions: int = 0
    events: int = 0


@dataclass(frozen=True)
class EraseDecisions:
    """Put tombstones in the place of some decisions and of all that followed from them.

    Their sessions are forgotten too: who was in them, and what was typed there, as hashes. It runs
    in one transaction, so a reader of the log meets either all of a decision or none of it.

    `by_age`: only the decisions; see `retention` for what goes with them.
    """

    ids: Sequence[str]
    by_age: bool = False

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> Gone:
        """Erase them, and return how many there were."""
        connection = begun(transaction)
        sessions: set[tuple[str, str]] = set()
        users: set[tuple[str, str]] = set()
        gone = Gone()
        for part in parts(self.ids):
            columns = (decisions.c.owner, decisions.c.session_id, decisions.c.user_hash)
            for row in connection.execute(sa.select(*columns).where(decisions.c.id.in_(part))):
                sessions.add((row.owner, row.session_id))
                if row.user_hash is not None:
                    users.add((row.owner, row.user_hash))
            tombstones = sa.update(events).where(
                events.c.decision_id.in_(part), events.c.kind.in_(_OF_DECISIONS)
            )
            empty = tombstones.values(
                kind=Forgotten.kind, body=to_json(Forgotten()), decision_id=None
            )
            count = connection.execute(empty).rowcount
            left = connection.execute(sa.delete(decisions).where(decisions.c.id.in_(part))).rowcount
            gone = Gone(gone.decisions + left, gone.events + count)
        if self.by_age:
            transaction.read_again()
            return gone
        forget_teaching(connection, sessions, users)
        keys = [transaction.session_key(*session) for session in sessions]
        forget_names(connection, keys)
        forget_sightings(connection, sightings.c.session_key, keys)
        forget_names(connection, (user for _, user in users if _is_nobody(connection, user)))
        transaction.read_again()
        return gone


def _is_nobody(connection: sa.Connection, user: str) -> bool:
    """Whether nothing of a user is left but the name."""
    for table in (sightings, decisions):
        left = sa.select(table.c.time).where(table.c.user_hash == user).limit(1)
        if connection.execute(left).first() is not None:
            return False
    return True


def begun(transaction: Transaction) -> sa.Connection:
    """Begin or go on with an erasure: no snapshot is left, and the store says that it goes on."""
    transaction.flush()
    connection = transaction.connection
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA secure_delete=ON")  # until the file is cleaned
    connection.execute(sa.delete(snapshots))
    connection.execute(sa.update(counter).values(erasing=transaction.time))
    return connection


def forget_names(connection: sa.Connection, names: Iterable[str]) -> int:
    """Delete users or sessions from the identities; return how many were there.

    Those who are left of an identity stay one person, under a name of their own.
    """
    count = 0
    for part in parts(names):
        count += connection.execute(
            sa.delete(identities).where(identities.c.name.in_(part))
        ).rowcount
        orphans = sa.select(identities.c.identity, sa.func.min(identities.c.name)).where(
            identities.c.identity.in_(part)
        )
        for gone, other in connection.execute(orphans.group_by(identities.c.identity)).all():
            same = sa.update(identities).where(identities.c.identity == gone)
            connection.execute(same.values(identity=other))
    return count


def forget_sightings(
    connection: sa.Connection, column: sa.Column[str], values: Iterable[str]
) -> int:
    """Delete who typed what, by user or session, and count the texts again; return how many."""
    count = 0
    for part in parts(values):
        these = column.in_(part)
        texts = set(
            connection.execute(sa.select(sightings.c.text_key).where(these).distinct()).scalars()
        )
        count += connection.execute(sa.delete(sightings).where(these)).rowcount
        count_again(connection, texts)
    return count


def forget_teaching(
    connection: sa.Connection,
    sessions: Iterable[tuple[str, str]],
    users: Collection[tuple[str, str]],
) -> None:
    """Delete how much these sessions and users taught lately; each is given with its owner."""
    known: dict[str, str] = {}
    for part in parts(user for _, user in users):
        rows = sa.select(identities.c.name, identities.c.identity)
        for name, identity in connection.execute(rows.where(identities.c.name.in_(part))):
            known[name] = identity
    people = {(owner, known.get(user, user)) for owner, user in users}
    for part in parts(names_of(sessions, people | set(users))):
        connection.execute(sa.delete(teaching).where(teaching.c.who.in_(part)))
