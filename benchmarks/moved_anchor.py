"""What a moved anchor does to the candidates: the same stream with and without it.

Every recommender plays the window twice, with candidates selected around the current query, and
around the vector that a model of RIN predicts for the next one. Intervals are of the differences on
the same steps; people are resampled.

``python -m benchmarks.moved_anchor POOL RIN --since 2018-01-01 --until 2018-07-01 --out RUN``
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from nextquery import ArmPool
from nextquery.research import replay
from nextquery.research.report.tables import interval

POLICIES = ("most-similar-first", "lin-ucb-memory")
_FIRST = 10


def main() -> None:
    """Play the stream for every k, or read what was played, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--since", default="2018-01-01")
    parser.add_argument("--until")
    parser.add_argument("-k", type=int, nargs="+", default=[50, 250])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    pool = ArmPool.open(given.pool)
    print("| k | recommender | | steps | current query | moved anchor | difference |")
    print("|---|---|---|---|---|---|---|")
    for k in given.k:
        runs = []
        for name in ("max-utility", f"max-utility@anchor={given.model}"):
            options = replay.StreamOptions(
                since=given.since, until=given.until, selection=name, k=k, policies=POLICIES
            )
            to = given.out / f"{'moved' if '@' in name else 'plain'}-{k}"
            replay.run_stream(pool, replay.sessions_of(pool), to, options, processes=1)
            runs.append(to)
        for row in compared(*runs):
            print(f"| {k} | {row} |")


def compared(plain: Path, moved: Path) -> Iterator[str]:
    """Yield the cells of a row for every recommender and measure."""
    before, after = played(plain), played(moved)
    for name, steps in before.items():
        for measure, values in steps["measures"].items():
            other = after[name]["measures"][measure]
            gap, low, high = interval(other - values, steps["person"])
            cells = [
                f"`{name}`",
                measure,
                f"{len(values):,}",
                f"{values.mean():.4f}",
                f"{other.mean():.4f}",
            ]
            yield " | ".join([*cells, f"{gap:+.4f} [{low:+.4f}, {high:+.4f}]"])


def played(run: Path) -> dict[str, dict[str, Any]]:
    """Return what every recommender did at each step of a run."""
    columns = ["policy", "person", "rank", "candidate"]
    table = pq.read_table(run / "stream_steps.parquet", columns=columns)
    names = np.array(table["policy"].to_pylist(), dtype=object)
    found = {}
    for name in dict.fromkeys(names.tolist()):
        own = names == name
        ranks = table["rank"].to_numpy()[own]
        hits = (ranks > 0) & (ranks <= _FIRST)
        measures = {
            "coverage": table["candidate"].to_numpy()[own].astype(np.float64),
            "hit@10": hits.astype(np.float64),
            "MRR@10": np.where(hits, 1.0 / np.maximum(ranks, 1), 0.0),
        }
        found[name] = {"person": table["person"].to_numpy()[own], "measures": measures}
    return found


if __name__ == "__main__":
    main()
