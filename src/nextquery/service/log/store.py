"""The store: the event log in a database, SQLite or PostgreSQL, with its clock and hashes.

*The clock* keeps the order of the log, and recovers from a wrong date of the machine.

*Hashes* stand for users, sessions, texts and requests. Users are hashed with `user_hash_secret`,
which an operator may share between stores. Everything else is hashed with the store's own secret,
so that all services on a store agree.
"""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.logs.cleaning import normalised_user, one_spelling, person_hash
from nextquery.service.log.database import OpenDatabase
from nextquery.service.log.events import DecisionEvent, Event, LeftOut, ModelEvent, from_json
from nextquery.service.log.schema import counter, decisions, events, snapshots
from nextquery.signing import keyed

AHEAD_S = 3600.0
"""Seconds that the log's clock may be ahead of the machine's; more is somebody's wrong date."""
_PLAUSIBLE = 1_735_689_600.0  # 2025-01-01: a machine whose clock says less has lost its date
_LAST = 1e11  # about the year 5000


def is_time(value: object) -> bool:
    """Whether a stored value can be the time of an event, in seconds since 1970.

    >>> is_time(1.8e9), is_time(float("inf")), is_time("noon")
    (True, False, False)
    """
    return isinstance(value, float) and 0.0 <= value < _LAST


class Clock:
    """Unix time that starts at the machine's clock and then follows the monotonic clock.

    Setting the machine's clock back by less than an hour has no effect, nor has setting it ahead.
    If the log is already ahead (`at_least`), time continues from there, but never more than
    `AHEAD_S` ahead of the machine's clock: one process with a wrong date would otherwise put all
    later events into that year. Positions keep the order then; times may go back once.

    >>> clock = Clock(wall=lambda: 100.0, monotonic=lambda: 7.0)
    >>> clock.now(), clock.at_least(130.0), clock.now()
    (100.0, 130.0, 130.0)
    >>> today, year_2100 = 1.8e9, 4.1e9
    >>> Clock(wall=lambda: today, monotonic=lambda: 7.0).at_least(year_2100) == today
    True
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return the seconds since 1970."""
        return self._offset + self._monotonic()

    def at_least(self, moment: float) -> float:
        """Return the time, from now on never earlier than `moment` if that can be right."""
        with self._lock:
            wall = self._wall()
            if wall > _PLAUSIBLE and self.now() > wall + AHEAD_S:
                self._offset = wall - self._monotonic()  # this process started with a wrong date
            if wall > _PLAUSIBLE and moment > wall + AHEAD_S:
                return self.now()
            self._offset += max(0.0, moment - self.now())
            return max(moment, self.now())


_SNAPSHOT_S = 60.0  # a snapshot may have many megabytes


class Head(NamedTuple):
    """The end of the log, and what a writer must know about it."""

    position: int
    next_arm: int
    barrier: int
    model: int
    clock: float
    secret: str


class StoredDecision(NamedTuple):
    """A decision with its outcome so far; `state` is open, failed, accepted or undelivered."""

    id: str
    position: int
    owner: str
    session_id: str
    user_hash: str | None
    time: float
    state: str
    accepted: int | None
    delivered: bool
    request_hash: str | None
    person: str | None
    body: DecisionEvent


class Store(OpenDatabase):
    """The log in an open database. Read from any thread; write through `Writer`."""

    def head(self) -> Head:
        """Return the end of the log."""
        with self.reading() as connection:
            return head_of(connection)

    def read(self, after: int, limit: int = 500) -> list[Event]:
        """Return the events after a position, in order."""
        return [as_event(row) for row in self.rows(after, limit)]

    def rows(self, after: int, limit: int = 500) -> Sequence[Any]:
        """Return the rows of the events after a position, in order; see `as_event`."""
        found = sa.select(events).where(events.c.position > after)
        with self.reading() as connection:
            return connection.execute(found.order_by(events.c.position).limit(limit)).all()

    def decision(self, decision_id: str) -> StoredDecision | None:
        """Return a decision, or None."""
        with self.reading() as connection:
            row = connection.execute(_DECISIONS.where(decisions.c.id == decision_id)).first()
        return None if row is None else _decision(row)

    def decisions(self, *, after: int = 0, page: int = 500) -> Iterator[StoredDecision]:
        """Yield every decision in order of position, with one page in memory at a time."""
        while True:
            where = _DECISIONS.where(decisions.c.position > after)
            with self.reading() as connection:
                rows = connection.execute(where.order_by(decisions.c.position).limit(page)).all()
            yield from (_decision(row) for row in rows)
            if len(rows) < page:
                return
            after = rows[-1].position

    def newest(self, limit: int) -> list[StoredDecision]:
        """Return the newest decisions, newest first."""
        found = _DECISIONS.order_by(decisions.c.position.desc()).limit(limit)
        with self.reading() as connection:
            return [_decision(row) for row in connection.execute(found).all()]

    def size(self) -> int:
        """Return the size of the database in bytes."""
        sqlite = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
        postgres = "SELECT pg_database_size(current_database())"
        with self.reading() as connection:
            asked = sqlite if connection.dialect.name == "sqlite" else postgres
            return int(connection.execute(sa.text(asked)).scalar_one())

    def last_of_sessions(
        self, sessions: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], StoredDecision]:
        """Return the newest decision of each session, given as (owner, session id), that has one.

        The same session id of another owner is another session.
        """
        ids: dict[str, set[str]] = {}
        for owner, session_id in sessions:
            ids.setdefault(owner, set()).add(session_id)
        newest = sa.union_all(*(_newest_of(owner, sorted(ids[owner])) for owner in sorted(ids)))
        with self.reading() as connection:
            rows = connection.execute(_DECISIONS.where(decisions.c.position.in_(newest))).all()
        return {(row.owner, row.session_id): _decision(row) for row in rows}

    def model(self, position: int) -> ModelEvent | None:
        """Return the model event at a position, or None."""
        found = self.read(position - 1, 1) if position else []
        body = found[0].body if found else None
        return body if isinstance(body, ModelEvent) else None

    def left_out(self, until: int) -> list[Event]:
        """Return the events up to a position that leave out decisions, in order."""
        return self.of_kind(LeftOut.kind, until)

    def of_kind(self, kind: str | Sequence[str], until: int) -> list[Event]:
        """Return the events of one kind, or of several, up to a position, in order."""
        kinds = [kind] if isinstance(kind, str) else kind
        these = (events.c.kind.in_(kinds), events.c.position <= until)
        found = sa.select(events).where(*these).order_by(events.c.position)
        with self.reading() as connection:
            return [as_event(row) for row in connection.execute(found).all()]

    def snapshot_positions(self) -> list[int]:
        """Return the positions of the snapshots, newest first."""
        found = sa.select(snapshots.c.position).order_by(snapshots.c.position.desc())
        with self.reading() as connection:
            return [int(position) for position in connection.execute(found).scalars()]

    def snapshot(self, position: int) -> tuple[str, bytes] | None:
        """Return the checksum and the bytes of a snapshot."""
        found = sa.select(snapshots.c.sha256, snapshots.c.blob)
        with self.reading() as connection:
            row = connection.execute(found.where(snapshots.c.position == position)).first()
        return None if row is None else (row.sha256, bytes(row.blob))

    def save_snapshot(self, position: int, sha256: str, blob: bytes, *, keep: int) -> None:
        """Save a snapshot, and keep only the newest `keep`; not one from before an erasure."""
        older = sa.select(snapshots.c.position).order_by(snapshots.c.position.desc()).offset(keep)
        with self.writing(answer_s=_SNAPSHOT_S) as connection:
            connection.execute(sa.delete(snapshots).where(snapshots.c.position == position))
            row = {"position": position, "sha256": sha256, "blob": blob}
            connection.execute(sa.insert(snapshots), [row])
            for old in connection.execute(older).scalars().all():
                connection.execute(sa.delete(snapshots).where(snapshots.c.position == old))
            # last, since it locks the log; an erasure that waits for the lock sees the snapshot
            erased = connection.execute(sa.select(counter.c.erased).with_for_update()).scalar_one()
            connection.execute(sa.delete(snapshots).where(snapshots.c.position < erased))


_DECISIONS = sa.select(
    *(decisions.c[name] for name in StoredDecision._fields if name != "body"), events.c.body
).join(
    events,
    sa.and_(events.c.position == decisions.c.position, events.c.kind == DecisionEvent.kind),
)


def head_of(connection: sa.Connection, *, lock: bool = False) -> Head:
    """Return the end of the log; `lock` stops other writers until this transaction ends."""
    found = sa.select(counter)
    row = connection.execute(found.with_for_update() if lock else found).one()
    return Head(**{name: getattr(row, name) for name in Head._fields})


def _newest_of(owner: str, session_ids: list[str]) -> sa.Select[Any]:
    # `(owner, session_id) IN (…)` would be shorter, but SQLite scans the whole index for it
    return (
        sa.select(sa.func.max(decisions.c.position))
        .where(decisions.c.owner == owner, decisions.c.session_id.in_(session_ids))
        .group_by(decisions.c.session_id)
    )


def as_event(row: Any) -> Event:
    """Read the event of a row of the table `events`."""
    body = from_json(row.kind, row.body, row.position)
    return Event(int(row.position), row.time, row.decision_id, body)


def _decision(row: Any) -> StoredDecision:
    values = row._asdict()
    body = from_json(DecisionEvent.kind, values["body"], values["position"])
    return StoredDecision(**{**values, "body": body})


def session_key(secret: str, owner: str, session_id: str) -> str:
    """Return the name of a session; the same id of another owner is another session.

    Spellings of one id are one session here, as they are for users: this name only serves to find
    out who is the same person.
    """
    return keyed(secret, "session", f"{owner}\0{one_spelling(session_id)}")


def request_key(owner: str, request_id: str) -> str:
    """Return the name of a request; the same id of another owner is another request."""
    return hashlib.sha256(f"{owner}\0{request_id}".encode()).hexdigest()


def request_hash(
    session_id: str,
    query: str,
    m: int,
    user: str | None,
    person: str | None = None,
    at_least: float | None = None,
    segment: str = "",
) -> str:
    """Hash the content of a request, to tell a repetition from another request with its id.

    Who is trusted to be a person is part of it: the answer may hold what only they may see.
    """
    content = json.dumps([session_id, query, m, user, person, at_least, segment])
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Hashes:
    """The hashes of one store.

    >>> hashes = Hashes("of users", "of the store")
    >>> hashes.user("u9") == hashes.user(" U9 "), hashes.user("null")
    (True, None)
    """

    user_secret: str = field(repr=False)
    store_secret: str = field(repr=False)

    @classmethod
    def of(cls, store: Store, user_hash_secret: str) -> "Hashes":
        """Return the hashes of a store, which accepts only the secret that it began with.

        With another secret, the same user would count as two.
        """
        with store.reading() as connection:
            row = connection.execute(sa.select(counter.c.secret, counter.c.user_secret)).one()
        used = keyed(row.secret, "user_hash_secret", user_hash_secret)
        if row.user_secret is None:
            first = sa.update(counter).where(counter.c.user_secret.is_(None))
            with store.writing() as connection:
                connection.execute(first.values(user_secret=used))
                known = connection.execute(sa.select(counter.c.user_secret)).scalar_one()
        else:
            known = row.user_secret
        if not hmac.compare_digest(known, used):
            given = "another user_hash_secret" if user_hash_secret else "no user_hash_secret"
            raise InvalidInput(
                f"{store.name} is used with one user_hash_secret, and this service has {given}, so "
                "one user would count as two. Start with the secret that the store began with "
                "(the setting user_hash_secret; leave it out if there was none), or pass a new "
                "store."
            )
        return cls(user_hash_secret or row.secret, row.secret)

    def user(self, user_id: str) -> str | None:
        """Return the hash of a user id; None if the id names nobody."""
        name = normalised_user(user_id)
        return None if name is None else keyed(self.user_secret, "user", name)

    def person(self, owner: str, user_id: str) -> str | None:
        """Return the hash of a person with an own past; None if the id names nobody."""
        return person_hash(self.user_secret, owner, user_id)

    def text(self, text: str) -> str:
        """Return the key of a cleaned text."""
        return keyed(self.store_secret, "text", text)
