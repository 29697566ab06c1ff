"""Writes of operators: blocks, the kill switch, reviews of arms, leases, and the audit.

*Audit.* The log has the changes of operators, and the table of keys those of API keys. A change
that is an event records who made it (`By`), if that is known. The table of keys has when a key
was created and when it ends, not who did it.

*Another pool* under the same log takes two steps: its new arms get their ids, then all workers
change together.

*Review.* Approve or reject a held text, or remove an arm.

*Leases.* One process works for all: a lease keeps the others from the same work until it is over.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any, NamedTuple

import sqlalchemy as sa

from nextquery.errors import Conflict, Damaged
from nextquery.segments import key_of, segment_of, text_of
from nextquery.service.log import events, schema
from nextquery.service.log.store import Store, as_event
from nextquery.service.log.writer import NOTHING, Needs, Transaction


@dataclass(frozen=True)
class Control:
    """A change that every later answer respects."""

    body: (
        events.Blocked
        | events.Unblocked
        | events.PatternBlocked
        | events.PatternAllowed
        | events.Switched
        | events.Pinned
        | events.Unpinned
    )

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the event, raise the barrier to it, and return its position."""
        position = transaction.append(self.body)
        transaction.raise_barrier()
        return position


@dataclass(frozen=True)
class NewModel:
    """The model that makes decisions from here on, for a pool of `arms` arms."""

    body: events.ModelEvent
    after: int
    arms: int

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int | None:
        """Append the event and return its position; None if `after` is not the newest model."""
        if transaction.model != self.after:
            return None
        transaction.next_arm = max(transaction.next_arm, self.arms)
        transaction.model = transaction.append(self.body)
        return transaction.model


class ArmText(NamedTuple):
    """A text that became an arm, is held for review, or may never be an arm (again).

    `shown` is its spelling as a key, with its segment. `state` is added, held, rejected or removed;
    `arm` is None if it never was an arm. `owner` is who typed it when enough people had, `time` the
    last change.
    """

    shown: str
    state: str
    arm: int | None
    owner: str
    time: float


def listed_arm_texts(store: Store, limit: int) -> tuple[list[ArmText], int]:
    """Return held texts, then the others, each with the newest change first; and how many are held.

    At most `limit` texts are listed.
    """
    held = schema.arm_texts.c.state == "held"
    columns = (schema.arm_texts.c[name] for name in ArmText._fields)
    order = (
        sa.case((held, 0), else_=1),
        schema.arm_texts.c.time.desc(),
        schema.arm_texts.c.text_key,
    )
    count = sa.select(sa.func.count()).select_from(schema.arm_texts).where(held)
    known = sa.select(*columns).where(
        schema.arm_texts.c.shown != ""
    )  # not those whose text was erased
    with store.reading() as connection:
        rows = connection.execute(known.order_by(*order).limit(limit)).all()
        return [ArmText(*row) for row in rows], int(connection.execute(count).scalar_one())


@dataclass(frozen=True)
class ApproveArm:
    """Make an arm of a text that is held for review."""

    text_key: str
    held: events.ArmHeld
    by: events.By | None = None
    model: int | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the new arm and return its position in the log."""
        _check_held(transaction, self.text_key)
        arm = transaction.take_arm_id()
        _change(transaction, self.text_key, state="added", arm=arm)
        held, vector = self.held, transaction.vector(self.held.vector, self.model)
        return transaction.append(events.ArmAdded(arm, held.text, held.shown, vector, self.by))


@dataclass(frozen=True)
class RejectArm:
    """Never make an arm of a text that is held for review."""

    text_key: str
    text: str
    by: events.By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the rejection and return its position in the log."""
        _check_held(transaction, self.text_key)
        _change(transaction, self.text_key, state="rejected")
        return transaction.append(events.ArmRejected(self.text, self.by))


@dataclass(frozen=True)
class RemoveArm:
    """Remove an arm for good; its text never becomes an arm again."""

    arm: int
    text_key: str
    shown: str
    by: events.By | None = None

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the removal, raise the barrier to it, and return its position in the log."""
        if _state(transaction, self.text_key) is None:
            row = sa.insert(schema.arm_texts).values(
                text_key=self.text_key, shown=self.shown, owner=""
            )
            transaction.connection.execute(row.values(state="removed", time=transaction.time))
        _change(transaction, self.text_key, state="removed", arm=self.arm)
        position = transaction.append(events.ArmRemoved(self.arm, self.by))
        transaction.raise_barrier()
        return position


def _check_held(transaction: Transaction, text_key: str) -> None:
    state = _state(transaction, text_key)
    if state != "held":
        raise Conflict(
            f"this query is not held for review: it is {state or 'unknown'}. GET /v1/arms lists "
            "the held queries."
        )


def _state(transaction: Transaction, text_key: str) -> str | None:
    found = sa.select(schema.arm_texts.c.state).where(schema.arm_texts.c.text_key == text_key)
    return transaction.connection.execute(found).scalar_one_or_none()


def _change(transaction: Transaction, text_key: str, **values: str | int) -> None:
    transaction.texts.settled.add(text_key)
    row = sa.update(schema.arm_texts).where(schema.arm_texts.c.text_key == text_key)
    transaction.connection.execute(row.values(**values, time=transaction.time))


_KINDS = {one.kind: one for one in events.Body.__args__ if "by" in {f.name for f in fields(one)}}
_AUTOMATIC = ("arm_added",)  # made by people who typed the query, unless somebody approved it
_LEFT_OUT = ("by", "vector", "arrays", "shown", "share", "beside", "continued", "interleaved")
_LONG = 20  # entries of a list that are told


class AuditEntry(NamedTuple):
    """A change: when, at which log position (None: of a key), what, and who made it."""

    time: float
    position: int | None
    change: str
    details: dict[str, Any]
    by: events.By | None


def changes(store: Store, *, since: float = 0.0, limit: int = 100) -> list[AuditEntry]:
    """Return the newest changes since a Unix time, newest first."""
    found = [*_of_events(store, since, limit), *_of_keys(store, since)]
    return nlargest(limit, found, key=lambda one: (one.time, one.position or 0))


def as_json(change: AuditEntry) -> dict[str, Any]:
    """Return a change as plain values.

    >>> row = as_json(AuditEntry(0.0, 7, "blocked", {"text": "a"}, None))
    >>> row["time"], row["change"], row["by"]
    ('1970-01-01T00:00:00.000Z', 'blocked', None)
    """
    moment = datetime.fromtimestamp(change.time, UTC).isoformat(timespec="milliseconds")
    by = None if change.by is None else {k: v for k, v in asdict(change.by).items() if v}
    return {**change._asdict(), "time": moment.replace("+00:00", "Z"), "by": by}


def _of_events(store: Store, since: float, limit: int) -> Iterator[AuditEntry]:
    by_people = schema.events.c.body.like('%"by":%')
    wanted = (schema.events.c.kind.in_(_KINDS), schema.events.c.time >= since)
    made = sa.or_(schema.events.c.kind.not_in(_AUTOMATIC), by_people)
    rows = (
        sa.select(schema.events)
        .where(*wanted, made)
        .order_by(schema.events.c.position.desc())
        .limit(limit)
    )
    with store.reading() as connection:
        found = connection.execute(rows).all()
    for row in found:
        try:
            body: Any = as_event(row).body
        except Damaged:
            continue  # what reads the log for a model reports it
        yield AuditEntry(row.time, int(row.position), row.kind, _details(body), body.by)


def _details(body: Any) -> dict[str, Any]:
    """Return what an event says, without what no person reads."""
    details: dict[str, Any] = {}
    for field in fields(body):
        value = getattr(body, field.name)
        if field.name in _LEFT_OUT or value in (None, "", ()):
            continue
        if isinstance(value, tuple | list):
            value = [*value[:_LONG], *(["…"] if len(value) > _LONG else [])]
        if field.name in ("text", "after"):
            details |= {"segment": segment_of(value)} if segment_of(value) else {}
            value = text_of(value)
        details[field.name] = value
    return details


def _of_keys(store: Store, since: float) -> Iterator[AuditEntry]:
    with store.reading() as connection:
        rows = connection.execute(sa.select(schema.keys)).all()
    for row in rows:
        details = {"key": row.id, "name": row.name, "scope": row.scopes, "owner": row.owner}
        for what, when in (("key_created", row.created), ("key_ends", row.revoked)):
            if when is not None and when >= since:
                yield AuditEntry(when, None, what, details, None)


LEASE_S = 60.0
"""Seconds without a sign of life after which a holder is taken for dead."""


@dataclass(frozen=True)
class TakeLease:
    """Take a lease, or make it longer; return whether `holder` has it now."""

    name: str
    holder: str
    seconds: float

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> bool:
        """Write it, unless somebody else holds it."""
        connection, until = transaction.connection, transaction.time + self.seconds
        here = schema.leases.c.name == self.name
        row = connection.execute(sa.select(schema.leases).where(here)).first()
        if row is None:
            values = {"name": self.name, "holder": self.holder, "until": until}
            connection.execute(sa.insert(schema.leases), [values])
            return True
        left = row.until - transaction.time
        if row.holder != self.holder and 0 < left <= 2 * self.seconds:  # more: a clock was wrong
            return False
        taken = sa.update(schema.leases).where(here).values(holder=self.holder, until=until)
        connection.execute(taken)
        return True


@dataclass(frozen=True)
class EndLease:
    """Give a lease back."""

    name: str
    holder: str

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> None:
        """Delete it, if `holder` has it."""
        own = (schema.leases.c.name == self.name, schema.leases.c.holder == self.holder)
        transaction.connection.execute(sa.delete(schema.leases).where(*own))


class Curated(NamedTuple):
    """A query to make an arm: the key of its text in the store, and the fields of `ArmAdded`."""

    text_key: str
    text: str
    shown: str
    vector: str


@dataclass(frozen=True)
class Curate:
    """Make arms of queries that operators chose.

    Those that are arms already stay as they are, but need no users any more: they do not end when
    somebody who typed them is forgotten.
    """

    queries: Sequence[Curated]
    by: events.By
    model: int | None = None  #: position of the model when the vectors were computed
    known: Collection[str] = ()  #: the keys in the store of those that are arms

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append the new arms, raise the barrier to them, and return how many there are."""

        states = [_state(transaction, query.text_key) for query in self.queries]
        for query, state in zip(self.queries, states, strict=True):
            if state in ("rejected", "removed"):
                raise Conflict(
                    f"{text_of(query.text)[:80]!r} was {state} for good, so it cannot be curated. "
                    "Leave it out of the list. Nothing was written."
                )
        _need_no_users(transaction, self.known)
        added = 0
        for query, state in zip(self.queries, states, strict=True):
            if state == "added":
                _need_no_users(transaction, [query.text_key])
                continue
            arm = transaction.take_arm_id()
            vector = transaction.vector(query.vector, self.model)
            transaction.append(events.ArmAdded(arm, query.text, query.shown, vector, self.by))
            _keep(transaction, query, arm, known=state is not None)
            added += 1
        if added:
            transaction.raise_barrier()
        return added


def _need_no_users(transaction: Transaction, text_keys: Collection[str]) -> None:
    """Keep these arms whoever is forgotten, unless an erasure is ending them just now."""
    for part in events.parts(text_keys):
        these = schema.arm_texts.c.text_key.in_(part), schema.arm_texts.c.min_users > 0
        transaction.connection.execute(
            sa.update(schema.arm_texts).where(*these).values(min_users=None)
        )


def _keep(transaction: Transaction, query: Curated, arm: int, *, known: bool) -> None:
    """Remember in `arm_texts` that the text is an arm, so that it never becomes another one."""
    transaction.texts.settle(query.text_key)
    values = {"state": "added", "arm": arm, "time": transaction.time, "min_users": None}
    if known:
        held = sa.update(schema.arm_texts).where(schema.arm_texts.c.text_key == query.text_key)
        transaction.connection.execute(held.values(**values))
        return
    shown = key_of(segment_of(query.text), query.shown)
    row = {"text_key": query.text_key, "shown": shown, "owner": "", **values}
    transaction.connection.execute(sa.insert(schema.arm_texts).values(**row))


_BARRED = ("rejected", "removed")


@dataclass(frozen=True)
class AnnouncePool:
    """Take ids for the rows that a pool has more than the one of the model at `after`."""

    pool: str
    runs: events.Runs  #: of the rows that have ids already
    known: int  #: how many rows have
    rows: int
    after: int

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> events.PoolAnnounced | None:
        """Append the event and return it; None if `after` is not the newest model."""
        if transaction.model != self.after:
            return None
        first, more = transaction.next_arm, self.rows - self.known
        transaction.next_arm += more
        row, id = (self.runs or ((0, 0),))[-1]
        follows = first == id + self.known - row
        runs = (
            self.runs if not more or follows else (*(self.runs or ((0, 0),)), (self.known, first))
        )
        announced = events.PoolAnnounced(self.pool, runs, transaction.next_arm)
        transaction.append(announced)
        return announced


@dataclass(frozen=True)
class ChangePool:
    """From here on decisions are made with another pool, and with this model for it.

    `texts` are the keys of the new rows, each with its id: those that an operator removed or
    rejected are removed.
    """

    body: events.ModelEvent
    after: int
    texts: Mapping[str, int]

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int | None:
        """Append the model, raise the barrier, return the position; None as of `AnnouncePool`."""
        if transaction.model != self.after:
            return None
        transaction.model = transaction.append(self.body)
        for arm in self._barred(transaction):
            transaction.append(events.ArmRemoved(arm))
        transaction.raise_barrier()
        return transaction.model

    def _barred(self, transaction: Transaction) -> Sequence[int]:
        rows = sa.select(schema.arm_texts.c.text_key).where(schema.arm_texts.c.state.in_(_BARRED))
        keys = transaction.connection.execute(rows).scalars()
        return sorted(self.texts[key] for key in keys if key in self.texts)
