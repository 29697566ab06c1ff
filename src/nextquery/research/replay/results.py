"""The result files of a run: flat rows that any tool can read."""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.research.replay.anchored import Finished
from nextquery.research.replay.metrics import bands

COLUMNS = [
    "protocol",
    "selection",
    "policy",
    "reading",
    "k",
    "epsilon",
    "alpha",
    "schedule",
    "encoder",
    "seed",
    "round",
    "regret",
    "per_round_regret",
    "ci_low",
    "ci_high",
    "floor",
    "anchors",
]


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees either the old file or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a CSV file; floats have six decimals, and None is an empty field."""
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _plain(value) for name, value in row.items()})
    write_atomically(path, stream.getvalue().encode())


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def read_run(folder: Path) -> dict[str, Any]:
    """Return ``run.json`` of a run; empty if there is none."""
    path = folder / "run.json"
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return run


def write_json(path: Path, value: Any) -> None:
    """Write a readable JSON file."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode())


def described(result: Finished, encoder: str) -> dict[str, Any]:
    """Return the columns that identify the cell of a row."""
    cell, setting = result.cell, result.cell.setting
    return {
        "protocol": "anchored",
        "selection": setting.selection,
        "policy": cell.policy,
        "reading": setting.reading,
        "k": setting.k,
        "epsilon": f"{setting.epsilon:g}",
        "alpha": None if cell.alpha is None else f"{cell.alpha:g}",
        "schedule": cell.schedule,
        "encoder": encoder,
        "seed": setting.seed,
    }


def rows_of(result: Finished, encoder: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of `results.csv` for one cell: R(t), R(t)/t with its band, and the floor."""
    regrets = result.regrets
    mean, low, high = bands(regrets / result.recorded, result.cell.setting.seed)
    cell, floor = described(result, encoder), 1.0 - float(result.covered.mean())
    for at, t in enumerate(result.recorded.tolist()):
        yield {
            **cell,
            "round": t,
            "regret": float(regrets[:, at].mean()),
            "per_round_regret": float(mean[at]),
            "ci_low": float(low[at]),
            "ci_high": float(high[at]),
            "floor": floor,
            "anchors": len(regrets),
        }


def write_anchors(path: Path, results: Iterable[Finished], encoder: str) -> None:
    """Write `anchors.parquet`: every anchor's regret, for paired comparisons."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = []
    for result in results:
        anchors, rounds = result.rewards.shape
        columns: dict[str, Any] = {
            "anchor": np.repeat(np.arange(anchors), rounds),
            "session": np.repeat(result.sessions, rounds),
            "round": np.tile(result.recorded, anchors),
            "regret": result.regrets.ravel(),
            "per_round_regret": (result.regrets / result.recorded).ravel(),
            "floor": np.repeat(1.0 - result.covered, rounds),
        }
        fields = described(result, encoder)
        fields = {**fields, "epsilon": float(fields["epsilon"])}
        fields["alpha"] = None if fields["alpha"] is None else float(fields["alpha"])
        kinds = {
            "k": pa.int64(),
            "epsilon": pa.float64(),
            "alpha": pa.float64(),
            "seed": pa.int64(),
        }
        repeated = {
            name: pa.array([value], kinds.get(name, pa.string())).take(
                pa.array(np.zeros(anchors * rounds, np.int64))
            )
            for name, value in fields.items()
        }
        tables.append(pa.table({**repeated, **columns}))
    buffer = io.BytesIO()
    pq.write_table(pa.concat_tables(tables), buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())


def _plain(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else value
