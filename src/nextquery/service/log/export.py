"""Export of the log as UBI 1.3 in JSON Lines.

It is streamed in order of position, one page of decisions in memory at a time. A slate that was
never delivered has no impressions. `exchange.formats` lists all formats.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import BinaryIO, NamedTuple

import sqlalchemy as sa

from nextquery.service.log.events import PINNED, FeedbackEvent, from_json
from nextquery.service.log.schema import events
from nextquery.service.log.store import Store, StoredDecision

_PAGE = 500


class Exported(NamedTuple):
    """A decision, and when one of its entries was clicked (None: never)."""

    decision: StoredDecision
    clicked: float | None


def write_ubi(store: Store, sink: BinaryIO) -> None:
    """Write queries and events as JSON Lines."""
    sink.writelines(ubi_lines(store))


def ubi_lines(store: Store) -> Iterator[bytes]:
    """Yield the lines of that file."""
    for page in pages(store):
        for exported in page:
            for record in ubi_records(exported):
                yield json.dumps(record, ensure_ascii=False).encode() + b"\n"


def ubi_records(exported: Exported) -> Iterator[dict[str, object]]:
    """Yield the query of a decision, an impression per entry shown, and the click, if any."""
    decision, body = exported.decision, exported.decision.body
    why = {
        "policy": body.policy,
        "model_version": body.model_version,
        "fallback": body.fallback,
        **({"segment": body.segment} if body.segment else {}),
    }
    who = {"client_id": decision.user_hash or ""}
    yield {
        "application": "nextquery",
        "query_id": decision.id,
        **who,
        "session_id": decision.session_id,
        "user_query": body.query,
        "timestamp": iso(decision.time),
        "query_response_id": decision.id,
        "query_response_hit_ids": [str(arm) for arm in body.arms],
        "query_attributes": why,
    }
    for ordinal, entry in enumerate(body.slate, start=1):
        event = {
            "application": "nextquery",
            "query_id": decision.id,
            "session_id": decision.session_id,
            **who,
            "user_id": decision.user_hash or "",
            "event_attributes": {
                "object": {
                    "object_id": str(entry.arm),
                    "object_id_field": "arm_id",
                    "description": entry.text,
                },
                "position": {"ordinal": ordinal},
                "score": entry.score,
                "propensity": entry.propensity,
                "propensity_estimated": entry.propensity_estimated,
                **({"source": PINNED} if entry.source == PINNED else {}),
                **why,
            },
        }
        if decision.state != "undelivered":
            yield {"action_name": "impression", "timestamp": iso(decision.time), **event}
        if exported.clicked is not None and entry.arm == decision.accepted:
            yield {"action_name": "click", "timestamp": iso(exported.clicked), **event}


def iso(seconds: float) -> str:
    """Format a time as ISO 8601 in UTC.

    >>> iso(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def pages(store: Store) -> Iterator[list[Exported]]:
    """Yield the decisions in order, a page at a time, with their clicks."""
    decisions = store.decisions(page=_PAGE)
    while page := list(islice(decisions, _PAGE)):
        times = clicks(store, [decision.id for decision in page if decision.state == "accepted"])
        yield [Exported(decision, times.get(decision.id)) for decision in page]


def clicks(store: Store, ids: list[str]) -> dict[str, float]:
    """When each accepted decision was clicked: its first feedback that names an arm."""
    feedback = (events.c.kind == FeedbackEvent.kind, events.c.decision_id.in_(ids))
    rows = sa.select(events).where(*feedback).order_by(events.c.position)
    times: dict[str, float] = {}
    with store.reading() as connection:
        for row in connection.execute(rows):
            body = from_json(row.kind, row.body, row.position)
            if isinstance(body, FeedbackEvent) and body.accepted is not None:
                times.setdefault(row.decision_id, row.time)
    return times
