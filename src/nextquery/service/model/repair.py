"""Repair a log: a `void` event takes the place of each event that cannot be read or applied.

Nothing is deleted: a void event keeps the kind and the body of the one it replaces, and why. The
service may run meanwhile, since none of its workers can have read past such an event.
"""

import json
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.errors import Damaged
from nextquery.outcomes import OPEN, Outcome
from nextquery.service.log.events import (
    REPAIR,
    DecisionEvent,
    FeedbackEvent,
    ModelEvent,
    OutcomeEvent,
    TimeoutEvent,
    UndeliveredEvent,
    Void,
    from_json,
    to_json,
)
from nextquery.service.log.schema import counter, decisions, events, snapshots
from nextquery.service.log.store import Store, head_of
from nextquery.service.model.learner import Learner
from nextquery.service.model.served_catalogue import ServedCatalogue

_OUTCOMES = [FeedbackEvent.kind, TimeoutEvent.kind, UndeliveredEvent.kind]


class Repaired(NamedTuple):
    """An event that is void now: its position, its kind before (empty: missing), and why."""

    position: int
    kind: str
    why: str


def repair(store: Store, pool: ArmPool) -> list[Repaired]:
    """Replace every event that cannot be read or applied; return what was done, in order.

    `pool` must be the pool of the log (`prepare.check_pool`). Repairing again does nothing.
    """
    done: list[Repaired] = []
    learner = Learner(store, catalogue=ServedCatalogue(pool))
    while learner.position < (head := store.head().position):
        try:
            learner.catch_up(until=head)
            if learner.position < head:
                raise Damaged(f"events after {learner.position} are missing.")
        except Damaged as error:
            why = str(error).removesuffix(REPAIR).strip()
            done.append(_void(store, learner.position + 1, why))
    return done


def _void(store: Store, position: int, why: str) -> Repaired:
    """Replace one event, and bring the tables that follow from the events into line."""
    with store.writing() as connection:
        head = head_of(connection, lock=True)
        here = events.c.position == position
        row = connection.execute(sa.select(events).where(here)).first()
        kind, body = ("", "") if row is None else (row.kind, row.body)
        void = {"kind": Void.kind, "body": to_json(Void(was=kind, body=body, why=why))}
        if row is None:
            before = sa.select(sa.func.max(events.c.time)).where(events.c.position < position)
            time = connection.execute(before).scalar() or 0.0
            new = {"position": position, "time": time, "decision_id": None, **void}
            connection.execute(sa.insert(events), [new])
        else:
            connection.execute(sa.update(events).where(here).values(**void))
        if kind == DecisionEvent.kind:
            connection.execute(sa.delete(decisions).where(decisions.c.position == position))
        elif kind in _OUTCOMES and row is not None:
            _set_outcome(connection, row.decision_id)
        if position == head.model:
            models = sa.select(sa.func.max(events.c.position)).where(
                events.c.kind == ModelEvent.kind
            )
            last = connection.execute(models).scalar() or 0
            connection.execute(sa.update(counter).values(model=last))
        connection.execute(sa.delete(snapshots).where(snapshots.c.position >= position))
    return Repaired(position, kind, why)


def _set_outcome(connection: sa.Connection, decision_id: str | None) -> None:
    """Give a decision the outcome of its last event that counts."""
    found = sa.select(events.c.kind, events.c.body, events.c.position).where(
        events.c.decision_id == decision_id, events.c.kind.in_(_OUTCOMES)
    )
    outcome = OPEN
    for kind, text, position in connection.execute(found.order_by(events.c.position)):
        try:
            body = from_json(kind, text, position)
        except Damaged:  # it will be void too
            continue
        if isinstance(body, OutcomeEvent):
            accepted = body.accepted if isinstance(body, FeedbackEvent) else None
            clicked = accepted if body.state == "accepted" else None
            outcome = Outcome(body.state, clicked, body.new)
    connection.execute(
        sa.update(decisions)
        .where(decisions.c.id == decision_id)
        .values(state=outcome.state, accepted=outcome.accepted, rewards=json.dumps(outcome.rewards))
    )
