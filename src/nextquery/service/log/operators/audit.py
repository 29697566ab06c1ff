"""Who changed what: the changes of operators in the log, and those of API keys.

A change that is an event says who made it (`By`), if that is known. The table of keys has when a
key was created and when it ends, not who did it.
"""

from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime
from heapq import nlargest
from typing import Any, NamedTuple

import sqlalchemy as sa

from nextquery.errors import Damaged
from nextquery.segments import segment_of, text_of
from nextquery.service.log.events import Body
from nextquery.service.log.operators.changes import By
from nextquery.service.log.schema import events, keys
from nextquery.service.log.store import Store, as_event

_KINDS = {one.kind: one for one in Body.__args__ if "by" in {f.name for f in fields(one)}}
_AUTOMATIC = ("arm_added",)  # made by people who typed the query, unless somebody approved it
_LEFT_OUT = ("by", "vector", "arrays", "shown", "share", "beside", "continued", "interleaved")
_LONG = 20  # entries of a list that are told


class Change(NamedTuple):
    """A change: when, at which log position (None: of a key), what, and who made it."""

    time: float
    position: int | None
    change: str
    details: dict[str, Any]
    by: By | None


def changes(store: Store, *, since: float = 0.0, limit: int = 100) -> list[Change]:
    """Return the newest changes since a Unix time, newest first."""
    found = [*_of_events(store, since, limit), *_of_keys(store, since)]
    return nlargest(limit, found, key=lambda one: (one.time, one.position or 0))


def as_json(change: Change) -> dict[str, Any]:
    """Return a change as plain values.

    >>> row = as_json(Change(0.0, 7, "blocked", {"text": "a"}, None))
    >>> row["time"], row["change"], row["by"]
    ('1970-01-01T00:00:00.000Z', 'blocked', None)
    """
    moment = datetime.fromtimestamp(change.time, UTC).isoformat(timespec="milliseconds")
    by = None if change.by is None else {k: v for k, v in asdict(change.by).items() if v}
    return {**change._asdict(), "time": moment.replace("+00:00", "Z"), "by": by}


def _of_events(store: Store, since: float, limit: int) -> Iterator[Change]:
    by_people = events.c.body.like('%"by":%')
    wanted = (events.c.kind.in_(_KINDS), events.c.time >= since)
    made = sa.or_(events.c.kind.not_in(_AUTOMATIC), by_people)
    rows = sa.select(events).where(*wanted, made).order_by(events.c.position.desc()).limit(limit)
    with store.reading() as connection:
        found = connection.execute(rows).all()
    for row in found:
        try:
            body: Any = as_event(row).body
        except Damaged:
            continue  # what reads the log for a model reports it
        yield Change(row.time, int(row.position), row.kind, _details(body), body.by)


def _details(body: Any) -> dict[str, Any]:
    """Return what an event says, without what no person reads."""
    told: dict[str, Any] = {}
    for field in fields(body):
        value = getattr(body, field.name)
        if field.name in _LEFT_OUT or value in (None, "", ()):
            continue
        if isinstance(value, tuple | list):
            value = [*value[:_LONG], *(["…"] if len(value) > _LONG else [])]
        if field.name in ("text", "after"):
            told |= {"segment": segment_of(value)} if segment_of(value) else {}
            value = text_of(value)
        told[field.name] = value
    return told


def _of_keys(store: Store, since: float) -> Iterator[Change]:
    with store.reading() as connection:
        rows = connection.execute(sa.select(keys)).all()
    for row in rows:
        details = {"key": row.id, "name": row.name, "scope": row.scopes, "owner": row.owner}
        for what, when in (("key_created", row.created), ("key_ends", row.revoked)):
            if when is not None and when >= since:
                yield Change(when, None, what, details, None)
