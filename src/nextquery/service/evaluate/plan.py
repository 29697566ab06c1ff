"""When each decision of a log was made, and what later events say of it."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.service.log.events import (
    DecisionEvent,
    FeedbackEvent,
    Forgotten,
    TimeoutEvent,
    UndeliveredEvent,
    from_json,
)
from nextquery.service.log.schema import events
from nextquery.service.log.store import Store

_OUTCOMES = (FeedbackEvent.kind, TimeoutEvent.kind, UndeliveredEvent.kind)
_PAGE = 1000


class Planned(NamedTuple):
    """A decision: `named` are the arms that later events say came next, `last` is where they end.

    It is known beforehand, so that only what is needed is kept until then.
    """

    id: str
    position: int
    named: frozenset[int]
    last: int


class Plan(NamedTuple):
    """The decisions up to a position, by the position that the model had when it made them."""

    made_at: dict[int, list[Planned]]
    decisions: int
    erased: int  #: events of which only the position is left


def planned(store: Store, until: int, *, told: Callable[[float], None] = lambda done: None) -> Plan:
    """Read the log once; `told` is told the share that was read, page by page."""
    named: dict[str, set[int]] = defaultdict(set)
    last: dict[str, int] = {}
    found: list[tuple[int, str, int]] = []
    for number, (position, kind, decision_id, text) in enumerate(_rows(store, until), start=1):
        if number % _PAGE == 0:
            told(position / until)
        body = from_json(kind, text, position)
        if isinstance(body, DecisionEvent):
            found.append((body.model_version, decision_id, position))
            continue
        last[decision_id] = position
        if isinstance(body, FeedbackEvent):
            named[decision_id] |= _named(body)
    made_at: dict[int, list[Planned]] = defaultdict(list)
    for version, decision_id, position in found:
        arms = frozenset(named.get(decision_id, ()))
        made = Planned(decision_id, position, arms, last.get(decision_id, 0))
        made_at[min(version, position - 1)].append(made)
    return Plan(dict(made_at), len(found), _erased(store, until))


def _named(body: FeedbackEvent) -> set[int]:
    following = [part.arm for part in (body.full, body.unfull) if part is not None]
    return {arm for arm in (*following, body.issued) if arm is not None}


def _rows(store: Store, until: int) -> Iterator[tuple[int, str, str, str]]:
    columns = (events.c.position, events.c.kind, events.c.decision_id, events.c.body)
    wanted = events.c.kind.in_((DecisionEvent.kind, *_OUTCOMES))
    after = 0
    while True:
        here = sa.and_(wanted, events.c.position > after, events.c.position <= until)
        found = sa.select(*columns).where(here).order_by(events.c.position).limit(_PAGE)
        with store.reading() as connection:
            rows = connection.execute(found).all()
        yield from (tuple(row) for row in rows)
        if len(rows) < _PAGE:
            return
        after = rows[-1].position


def _erased(store: Store, until: int) -> int:
    these = (events.c.kind == Forgotten.kind, events.c.position <= until)
    found = sa.select(sa.func.count()).select_from(events).where(*these)
    with store.reading() as connection:
        return int(connection.execute(found).scalar_one())
