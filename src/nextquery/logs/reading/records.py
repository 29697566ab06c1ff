"""Read ir_datasets query logs: ``(user_id, query_id, query, query_orig, time, items)`` records."""

import datetime
import importlib
import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.logs.database import Engine
from nextquery.logs.reading.malformed import Source

PREFIX = "irds:"
_BATCH = 50_000


def load(name: str) -> Iterable[Any]:
    """Return the records of an ir_datasets data set, by its name without the prefix."""
    try:
        ir_datasets = importlib.import_module("ir_datasets")
    except ImportError:
        raise InvalidInput(
            f"{PREFIX}{name} needs the package ir_datasets. Install the extra: "
            "pip install 'nextquery[ir-datasets]'"
        ) from None
    try:
        dataset = ir_datasets.load(name)
    except KeyError:
        raise InvalidInput(
            f"ir_datasets has no data set {name!r}. Use one with a query log, such as 'aol-ia'."
        ) from None
    if not hasattr(dataset, "qlogs_iter"):
        raise InvalidInput(f"the data set {name!r} has no query log. Use one such as 'aol-ia'.")
    records: Iterable[Any] = dataset.qlogs_iter()
    return records


def insert(engine: Engine, records: Iterable[Any], named: str) -> Source:
    """Append records to ``log`` in batches, with the original spelling of a query if available."""
    if isinstance(records, str | bytes) or not isinstance(records, Iterable):
        raise InvalidInput(
            f"format='ir_datasets' takes an iterable of records or '{PREFIX}NAME'; "
            f"received {type(records).__name__}."
        )
    rows = 0
    iterator = iter(records)
    while batch := list(itertools.islice(iterator, _BATCH)):
        if not hasattr(batch[0], "query") or not hasattr(batch[0], "user_id"):
            raise InvalidInput(
                "a query-log record has user_id, query and time; "
                f"received {type(batch[0]).__name__}."
            )
        engine.insert("log", _columns(batch))
        rows += len(batch)
    if not rows:
        raise InvalidInput(f"{named} has no records. Pass a log with at least one query.")
    return Source(named, frozenset({"user", "time", "query"}))


def _columns(batch: list[Any]) -> dict[str, NDArray[Any]]:
    at = [_seconds(getattr(record, "time", None)) for record in batch]
    people = [_text(record.user_id).strip() or None for record in batch]
    queries = [_text(getattr(r, "query_orig", None)) or _text(r.query) for r in batch]
    none = np.full(len(batch), None, dtype=object)
    return {
        "file": np.zeros(len(batch), np.int32),
        "session": none,
        "person": np.array(people, dtype=object),
        "secs": np.array(at, np.float64),
        "raw": np.array(queries, dtype=object),
        "qid": none,
        "hits": none,
        "bad": np.array(["time" if math.isnan(t) else None for t in at], dtype=object),
        "segment": none,
    }


def _text(value: Any) -> str:
    # A lone surrogate is not valid Unicode and cannot be stored.
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


def _seconds(value: Any) -> float:
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        return aware.timestamp()
    return float(value) if isinstance(value, int | float) else math.nan
