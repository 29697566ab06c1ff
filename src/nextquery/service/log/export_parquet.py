"""Export of the log as Parquet, one row per slate entry, for off-policy estimates."""

import json
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from nextquery.service.log.export import Exported, pages
from nextquery.service.log.store import Store

_PIECE = 1 << 16
_COLUMNS = {
    "position": "BIGINT",
    "decision_id": "VARCHAR",
    "time": "TIMESTAMPTZ",
    "session_id": "VARCHAR",
    "user_hash": "VARCHAR",
    "query": "VARCHAR",
    "policy": "VARCHAR",
    "model_version": "BIGINT",
    "fallback": "BOOLEAN",
    "state": "VARCHAR",
    "ordinal": "INTEGER",
    "arm_id": "BIGINT",
    "text": "VARCHAR",
    "score": "DOUBLE",
    "propensity": "DOUBLE",
    "propensity_estimated": "BOOLEAN",
    "source": "VARCHAR",
    "accepted": "BOOLEAN",
    "clicked": "TIMESTAMPTZ",
}


def write_parquet(store: Store, sink: BinaryIO) -> None:
    """Write one row per entry of every decision, in the order of the log."""
    deque(parquet_pages(store, sink), maxlen=0)


def parquet_pages(store: Store, sink: BinaryIO) -> Iterator[None]:
    """Write that file page by page, so that a caller can do other things in between.

    The rows go through a temporary file, which DuckDB converts: its memory does not grow with the
    log, and no other package is needed.
    """
    with TemporaryDirectory(prefix="nextquery-export-") as folder:
        rows, out = Path(folder) / "rows.jsonl", Path(folder) / "rows.parquet"
        with rows.open("w", encoding="utf-8") as file:
            for page in pages(store):
                for exported in page:
                    file.writelines(f"{json.dumps(row)}\n" for row in entry_rows(exported))
                yield
        _convert(rows, out)
        with out.open("rb") as finished:
            while piece := finished.read(_PIECE):
                sink.write(piece)
                yield


def _convert(rows: Path, out: Path) -> None:
    import duckdb  # slow to import

    with duckdb.connect() as connection:
        connection.execute("SET temp_directory = ?", [str(out.parent)])
        read = "read_json($rows, format = 'newline_delimited', columns = $columns)"
        connection.execute(
            f"COPY (SELECT * FROM {read}) TO '{out}' (FORMAT parquet, COMPRESSION zstd)",
            {"rows": str(rows), "columns": _COLUMNS},
        )


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
            "source": entry.source,
            "accepted": accepted,
            "clicked": _moment(exported.clicked)
            if accepted and exported.clicked is not None
            else None,
        }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
