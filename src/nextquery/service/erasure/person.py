"""Find what the log knows of a person: a user or a session, of one key owner or of all."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.service.exchange.export import iso
from nextquery.service.log.events import LeftOut, parts
from nextquery.service.log.schema import arm_texts, decisions, events, identities, sightings
from nextquery.service.log.store import Hashes, Store, as_event, head_of, session_key

Owned = tuple[str, str]
"""A session: its owner and its id."""


@dataclass(frozen=True)
class Who:
    """A user by the keyed hash of the id, or a session by its id; of one `owner` or of all.

    All spellings of a user id are one user here, as they are for the rule of `min_users`.
    """

    user_hash: str | None = None
    session_id: str | None = None
    owner: str | None = None

    @property
    def why(self) -> str:
        """What is named: user or session."""
        return "session" if self.user_hash is None else "user"


def named(
    store: Store,
    *,
    user_id: str | None = None,
    session_id: str | None = None,
    owner: str | None = None,
    user_hash_secret: str = "",
) -> Who:
    """Return whose data is meant by an id; exactly one of the two must be given."""
    if (user_id is None) == (session_id is None):
        received = "none" if user_id is None else "both"
        raise InvalidInput(f"name one user or one session; received {received}.")
    if user_id is None:
        return Who(session_id=session_id, owner=owner)
    user_hash = Hashes.of(store, user_hash_secret).user(user_id)
    if user_hash is None:
        raise InvalidInput(
            f"{user_id!r} names nobody: it is empty or a placeholder. Pass the user_id that the "
            "requests had."
        )
    return Who(user_hash, owner=owner)


class PersonRecords(NamedTuple):
    """The sessions of somebody, and their decisions up to a position.

    Those with the user's own hash come last: while one is left, their sessions can be found.
    """

    sessions: list[Owned]
    decisions: list[str]


def found(connection: sa.Connection, who: Who, until: int | None = None) -> PersonRecords:
    """Find the sessions in which somebody was, and all decisions of them.

    A session is one visit of one person, so what was asked in it before they logged in is theirs
    too.
    """
    sessions = sorted(_sessions(connection, who))
    ids: list[tuple[bool, str]] = []
    for owner in {owner for owner, _ in sessions}:
        for part in parts(session for of, session in sessions if of == owner):
            columns = (decisions.c.id, decisions.c.user_hash, decisions.c.position)
            rows = sa.select(*columns).where(
                decisions.c.owner == owner, decisions.c.session_id.in_(part)
            )
            ids += (
                (row.user_hash == who.user_hash, row.id)
                for row in connection.execute(rows)
                if until is None or row.position <= until
            )
    return PersonRecords(sessions, [id for _, id in sorted(ids)])


def _sessions(connection: sa.Connection, who: Who) -> set[Owned]:
    columns = (decisions.c.owner, decisions.c.session_id)
    rows: sa.Select[Any] = sa.select(*columns).distinct()
    if who.owner is not None:
        rows = rows.where(decisions.c.owner == who.owner)
    if who.session_id is not None:
        rows = rows.where(decisions.c.session_id == who.session_id)
        return {(owner, session) for owner, session in connection.execute(rows)}
    asked = rows.where(decisions.c.user_hash == who.user_hash)
    known = {(owner, session) for owner, session in connection.execute(asked)}
    return known | set(_typed_in(connection, who, rows, known))


def _typed_in(
    connection: sa.Connection, who: Who, sessions: sa.Select[Any], known: set[Owned]
) -> Iterator[Owned]:
    """Yield the sessions that a user is known in only because of what they typed instead."""
    typed = sa.select(sightings.c.session_key).where(sightings.c.user_hash == who.user_hash)
    secret = head_of(connection).secret
    keys = set(connection.execute(typed).scalars())
    keys -= {session_key(secret, *session) for session in known}
    if keys:
        for owner, session_id in connection.execute(sessions):
            if session_key(secret, owner, session_id) in keys:
                yield owner, session_id


Known = dict[str, Any]


def known_of(store: Store, who: Who) -> Known:
    """Return everything that the log knows of somebody, as JSON values.

    `decisions` has every decision of their sessions with what followed from it. `typed` has what
    they typed that was no arm then: its text only if it became one, since the rest is kept as
    keyed hashes. `ids_in_their_sessions` counts the users and sessions that count as one person
    with them, and `left_out` the events that leave out what they taught.
    """
    with store.reading() as connection:
        theirs = found(connection, who)
        known = [one for part in parts(theirs.decisions) for one in _decisions(connection, part)]
        elsewhere = who.owner is not None and not theirs.sessions
        users = [] if who.user_hash is None or elsewhere else [who.user_hash]
        return {
            "sessions": [{"owner": owner, "session_id": id} for owner, id in theirs.sessions],
            "decisions": sorted(known, key=lambda one: int(one["position"])),
            "typed": _typed(connection, users),
            "ids_in_their_sessions": _joined(connection, users),
            "left_out": _left_out(connection, users),
        }


def anything(known: Known) -> bool:
    """Whether the log knows anything of them."""
    return any(bool(value) for value in known.values())


def _decisions(connection: sa.Connection, ids: list[str]) -> Iterable[Known]:
    rows = connection.execute(sa.select(decisions).where(decisions.c.id.in_(ids))).all()
    after: dict[str, list[Known]] = {}
    found = sa.select(events).where(events.c.decision_id.in_(ids)).order_by(events.c.position)
    for event in connection.execute(found):
        after.setdefault(event.decision_id, []).append(
            {
                "position": event.position,
                "kind": event.kind,
                "time": iso(event.time),
                "body": json.loads(event.body),
            }
        )
    for row in rows:
        yield {
            "position": row.position,
            "decision_id": row.id,
            "time": iso(row.time),
            "owner": row.owner,
            "session_id": row.session_id,
            "user_hash": row.user_hash,
            "person": row.person,
            "state": row.state,
            "accepted": row.accepted,
            "events": after.get(row.id, []),
        }


def _typed(connection: sa.Connection, users: list[str]) -> list[Known]:
    rows = (
        sa.select(sightings.c.time, arm_texts.c.shown, arm_texts.c.state)
        .select_from(sightings.outerjoin(arm_texts, arm_texts.c.text_key == sightings.c.text_key))
        .where(sightings.c.user_hash.in_(users))
        .order_by(sightings.c.time)
    )
    return [
        {"time": iso(row.time), "text": row.shown or None, "state": row.state or "counted"}
        for row in connection.execute(rows)
    ]


def _joined(connection: sa.Connection, users: list[str]) -> int:
    mine = sa.select(identities.c.identity).where(identities.c.name.in_(users))
    count = sa.select(sa.func.count()).select_from(identities)
    found = connection.execute(count.where(identities.c.identity.in_(mine))).scalar_one()
    return int(found)


def _left_out(connection: sa.Connection, users: list[str]) -> list[int]:
    if not users:
        return []
    found = sa.select(events).where(events.c.kind == LeftOut.kind).order_by(events.c.position)
    these = [as_event(row) for row in connection.execute(found)]
    return [
        event.position
        for event in these
        if isinstance(event.body, LeftOut) and event.body.user_hash in users
    ]
