"""Export of the log: UBI 1.3 as JSON Lines, or Parquet with one row per slate entry.

Both are streamed in order of position, one page of decisions in memory at a time. A slate that was
never delivered has no impressions.
"""

import json
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import BinaryIO, NamedTuple

import sqlalchemy as sa

from nextquery.service.log.events import FeedbackEvent, from_json
from nextquery.service.log.schema import events
from nextquery.service.log.store import Store, StoredDecision

FORMATS = ("ubi", "parquet")
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
    for page in _pages(store):
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
                **why,
            },
        }
        if decision.state != "undelivered":
            yield {"action_name": "impression", "timestamp": iso(decision.time), **event}
        if exported.clicked is not None and entry.arm == decision.accepted:
            yield {"action_name": "click", "timestamp": iso(exported.clicked), **event}


def write_parquet(store: Store, sink: BinaryIO) -> None:
    """Write one row per entry of every decision, for off-policy estimates."""
    deque(parquet_pages(store, sink), maxlen=0)


def parquet_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write that file page by page, so that a caller can do other things in between."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        {
            "position": pa.int64(),
            "decision_id": pa.string(),
            "time": pa.timestamp("us", tz="UTC"),
            "session_id": pa.string(),
            "user_hash": pa.string(),
            "query": pa.string(),
            "policy": pa.string(),
            "model_version": pa.int64(),
            "fallback": pa.bool_(),
            "state": pa.string(),
            "ordinal": pa.int32(),
            "arm_id": pa.int64(),
            "text": pa.string(),
            "score": pa.float64(),
            "propensity": pa.float64(),
            "propensity_estimated": pa.bool_(),
            "accepted": pa.bool_(),
            "clicked": pa.timestamp("us", tz="UTC"),
        }
    )
    with pq.ParquetWriter(sink, schema) as writer:
        for page in _pages(store):
            rows = [row for exported in page for row in entry_rows(exported)]
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
            yield


def entry_rows(exported: Exported) -> Iterator[dict[str, object]]:
    """Yield the entries of a decision as flat rows."""
    decision, body = exported.decision, exported.decision.body
    for ordinal, entry in enumerate(body.slate, start=1):
        accepted = entry.arm == decision.accepted
        yield {
            "position": decision.position,
            "decision_id": decision.id,
            "time": _moment(decision.time),
            "session_id": decision.session_id,
            "user_hash": decision.user_hash,
            "query": body.query,
            "policy": body.policy,
            "model_version": body.model_version,
            "fallback": body.fallback,
            "state": decision.state,
            "ordinal": ordinal,
            "arm_id": entry.arm,
            "text": entry.text,
            "score": entry.score,
            "propensity": entry.propensity,
            "propensity_estimated": entry.propensity_estimated,
            "accepted": accepted,
            "clicked": _moment(exported.clicked)
            if accepted and exported.clicked is not None
            else None,
        }


def iso(seconds: float) -> str:
    """Format a time as ISO 8601 in UTC.

    >>> iso(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    return _moment(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _pages(store: Store) -> Iterator[list[Exported]]:
    decisions = store.decisions(page=_PAGE)
    while page := list(islice(decisions, _PAGE)):
        times = _clicks(store, [decision.id for decision in page if decision.state == "accepted"])
        yield [Exported(decision, times.get(decision.id)) for decision in page]


def _clicks(store: Store, ids: list[str]) -> dict[str, float]:
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
