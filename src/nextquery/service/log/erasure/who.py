"""Whose data is meant: a user or a session, of one owner of keys or of all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.service.log.events import parts
from nextquery.service.log.schema import decisions, sightings
from nextquery.service.log.store import Hashes, Store, head_of, session_key

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


class Found(NamedTuple):
    """The sessions of somebody, and their decisions up to a position.

    Those with the user's own hash come last: while one is left, their sessions can be found.
    """

    sessions: list[Owned]
    decisions: list[str]


def found(connection: sa.Connection, who: Who, until: int | None = None) -> Found:
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
    return Found(sessions, [id for _, id in sorted(ids)])


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
