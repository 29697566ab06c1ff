"""The store: the event log in a database, SQLite or PostgreSQL."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from nextquery.service.log.database.opened import OpenDatabase
from nextquery.service.log.events import DecisionEvent, Event, ModelEvent, from_json
from nextquery.service.log.operators.changes import LeftOut
from nextquery.service.log.schema import counter, decisions, events, snapshots

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
