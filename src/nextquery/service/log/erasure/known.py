"""What the log knows of a person, for the person."""

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from nextquery.service.log.erasure.who import Who, found
from nextquery.service.log.events import LeftOut, parts
from nextquery.service.log.export import iso
from nextquery.service.log.schema import arm_texts, decisions, events, identities, sightings
from nextquery.service.log.store import Store, as_event

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
