"""The result file of a comparison, made from the files of its stream and its costs alone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.policies.registry import SERVED
from nextquery.replay.reporting.stream_report import interval
from nextquery.replay.results import read_rows, read_run
from nextquery.sessions import Floats, Ids

FILE, COSTS = "compare.csv", "costs.csv"
COST_COLUMNS = ["recommender", "train_seconds", "serve_ms", "serve_mb"]
COLUMNS = [
    *("recommender", "hit_at_1", "hit_at_5", "hit_at_10", "mrr_at_10", "coverage"),
    *("hit_at_10_less_served", "hit_at_10_low", "hit_at_10_high"),
    *("mrr_less_served", "mrr_low", "mrr_high"),
    *COST_COLUMNS[1:],
    *("steps", "people", "start", "seed"),
]
_FIRST = 10


def compared(run: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each recommender, the best by hit@10 first.

    Intervals are of differences to the served default, on the same steps; people are resampled.
    """
    import pyarrow.parquet as pq

    columns = ["policy", "rank", "candidate", "person"]
    table = pq.read_table(run / "stream_steps.parquet", columns=columns)
    names = np.array(table["policy"].to_pylist(), dtype=object)
    ranks, covered = table["rank"].to_numpy(), table["candidate"].to_numpy()
    people = table["person"].to_numpy()[names == SERVED]
    costs = {row["recommender"]: row for row in read_rows(run / COSTS)}
    stream = read_run(run)["stream"]
    served = ranks[names == SERVED]
    rows = []
    for name in dict.fromkeys(names.tolist()):
        own = ranks[names == name]
        row: dict[str, Any] = {"recommender": name}
        row |= {f"hit_at_{m}": float(_hits(own, m).mean()) for m in (1, 5, _FIRST)}
        row |= {"mrr_at_10": float(_reciprocal(own).mean())}
        row |= {"coverage": float(covered[names == name].mean())}
        row |= _gap("hit_at_10", _hits(own, _FIRST) - _hits(served, _FIRST), people)
        row |= _gap("mrr", _reciprocal(own) - _reciprocal(served), people)
        row |= {column: float(costs[name][column]) for column in COST_COLUMNS[1:]}
        row |= {"steps": len(own), "people": len(np.unique(people))}
        row |= {"start": stream["start"], "seed": stream["options"]["seed"]}
        rows.append(row)
    yield from sorted(rows, key=lambda row: -row["hit_at_10"])


def read_compared(run: Path) -> list[dict[str, Any]]:
    """Return the rows of ``compare.csv``, with numbers as numbers."""
    text = ("recommender", "start")
    return [
        {name: value if name in text else float(value) for name, value in row.items()}
        for row in read_rows(run / FILE)
    ]


def cost_row(name: str, cost: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of ``costs.csv`` of a measured recommender.

    >>> cost_row("sr", {"seconds": 2.0, "milliseconds": 0.5, "bytes": 3_000_000})["serve_mb"]
    3.0
    """
    return {
        "recommender": name,
        "train_seconds": float(cost["seconds"]),
        "serve_ms": float(cost["milliseconds"]),
        "serve_mb": float(cost["bytes"]) / 1e6,
    }


def _gap(name: str, values: Floats, people: Ids) -> dict[str, float]:
    mean, low, high = interval(values, people)
    return {f"{name}_less_served": mean, f"{name}_low": low, f"{name}_high": high}


def _hits(ranks: Ids, m: int) -> Floats:
    return ((ranks > 0) & (ranks <= m)).astype(np.float64)


def _reciprocal(ranks: Ids) -> Floats:
    return np.where(_hits(ranks, _FIRST) > 0, 1.0 / np.maximum(ranks, 1), 0.0)
