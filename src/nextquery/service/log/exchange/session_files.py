"""Export of sessions: GRU4Rec's table of ids, and HRED's lines of texts.

Sessions are numbered; their ids are not written. The file has those with at least two different
queries in a row, since one query has nothing after it to learn from.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import BinaryIO, NamedTuple

import sqlalchemy as sa

from nextquery.service.log.events import DecisionEvent, from_json
from nextquery.service.log.export import clicks
from nextquery.service.log.schema import decisions, events
from nextquery.service.log.store import Store

_PAGE = 500


class Asked(NamedTuple):
    """A query of a session; `arm` is None if it was no arm."""

    session: tuple[str, str]
    time: float
    arm: int | None
    text: str


class _Row(NamedTuple):
    session: tuple[str, str]
    position: int
    id: str
    time: float
    accepted: int | None
    body: DecisionEvent


def gru4rec_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write `SessionId`, `ItemId` and `Time`, tab separated; an item is an arm."""
    sink.write(b"SessionId\tItemId\tTime\n")
    number = 0
    for session in sessions(store):
        arms = without_repeats([one for one in session if one.arm is not None and one.arm >= 0])
        if len(arms) > 1:
            number += 1
            sink.writelines(f"{number}\t{one.arm}\t{one.time:.3f}\n".encode() for one in arms)
        yield


def hred_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write the queries of one session per line, tab separated."""
    for session in sessions(store):
        texts = [" ".join(one.text.split()) for one in without_repeats(session)]
        if len(texts) > 1:
            sink.write("\t".join(texts).encode() + b"\n")
        yield


def without_repeats(session: list[Asked]) -> list[Asked]:
    """Return the queries that differ from the one before: a page that loads again asks again."""
    kept: list[Asked] = []
    for one in session:
        if not kept or (one.arm, one.text.split()) != (kept[-1].arm, kept[-1].text.split()):
            kept.append(one)
    return kept


def sessions(store: Store) -> Iterator[list[Asked]]:
    """Yield the queries of each session in order, one page of decisions in memory at a time.

    A recommendation that was clicked is a query of the session too, even if no request followed.
    """
    for _, queries in groupby(_asked(store), key=lambda one: one.session):
        yield [one for one in queries if one.text.strip()]


def _asked(store: Store) -> Iterator[Asked]:
    before: _Row | None = None
    clicked: float | None = None
    for row, time in _decisions(store):
        goes_on = before is not None and before.session == row.session
        if before is not None and not (goes_on and before.accepted == row.body.anchor_arm):
            yield from _click(before, clicked)
        yield Asked(row.session, row.time, row.body.anchor_arm, row.body.query)
        before, clicked = row, time
    if before is not None:
        yield from _click(before, clicked)


def _click(row: _Row, time: float | None) -> Iterator[Asked]:
    """Yield the recommendation that was clicked, as a query."""
    for entry in row.body.slate:
        if row.accepted is not None and entry.arm == row.accepted:
            yield Asked(row.session, row.time if time is None else time, entry.arm, entry.text)


def _decisions(store: Store) -> Iterator[tuple[_Row, float | None]]:
    """Yield all decisions by session and position, each with the time of its click."""
    order = (decisions.c.owner, decisions.c.session_id, decisions.c.position)
    columns = (*order, decisions.c.id, decisions.c.time, decisions.c.accepted, events.c.body)
    found = sa.select(*columns).join(
        events,
        sa.and_(events.c.position == decisions.c.position, events.c.kind == DecisionEvent.kind),
    )
    after: tuple[str, str, int] | None = None
    while True:
        asked = found if after is None else found.where(sa.tuple_(*order) > sa.tuple_(*after))
        with store.reading() as connection:
            rows = connection.execute(asked.order_by(*order).limit(_PAGE)).all()
        times = clicks(store, [row.id for row in rows if row.accepted is not None])
        for row in rows:
            body = from_json(DecisionEvent.kind, row.body, row.position)
            assert isinstance(body, DecisionEvent)
            session = (row.owner, row.session_id)
            kept = _Row(session, row.position, row.id, row.time, row.accepted, body)
            yield kept, times.get(row.id)
        if len(rows) < _PAGE:
            return
        after = (rows[-1].owner, rows[-1].session_id, rows[-1].position)
