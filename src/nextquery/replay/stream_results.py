"""`run_stream`: score how well each recommender predicts the next query, and write the files."""

import io
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.checks import installed
from nextquery.replay.grid import cost, update_run
from nextquery.replay.results import write_atomically, write_rows
from nextquery.replay.runners import Each, runner
from nextquery.replay.sessions import Ids
from nextquery.replay.stream.contestants import contestant
from nextquery.replay.stream.protocol import Stream, StreamOptions, follow
from nextquery.replay.work import Progress, begin
from nextquery.sessions import Sessions

COLUMNS = [
    *("protocol", "selection", "policy", "pool", "m", "seed", "step"),
    *("hit_at_m", "mrr", "per_round_regret", "foreseen", "wasted"),
]
SIZES = (1, 2, 3, 5, 10, 20)
_POINTS = 10  # how many points of the stream are recorded


def run_stream(
    pool: ArmPool,
    sessions: Sessions,
    out: str | os.PathLike[str],
    options: StreamOptions,
    progress: Progress | None = None,
    *,
    processes: int | None = None,
    each: Each | None = None,
) -> Path:
    """Run the protocol `stream` and write ``stream.csv`` and ``stream_steps.parquet`` into `out`.

    It resumes like `run_grid`, and the files are the same, byte for byte, however it is run.
    """
    installed("replay", "pyarrow")
    began, run = time.perf_counter(), runner(processes, each)
    work = begin(pool, sessions, out)
    stream, ranks = follow(work, options, run, progress)
    rows = (row for name, own in ranks.items() for row in rows_of(name, own, options))
    write_rows(work.out / "stream.csv", COLUMNS, rows)
    _write_steps(work.out / "stream_steps.parquet", stream, ranks)
    summary = {"options": asdict(options), "steps": int(stream.scored.sum())}
    update_run(work, {"stream": {**summary, **cost(began, processes, each)}})
    return work.out


def rows_of(name: str, ranks: Ids, options: StreamOptions) -> Iterator[dict[str, Any]]:
    """Yield the rows of one recommender: averages over the steps so far, for every m.

    `foreseen` is the share of next queries among the m recommended, and `wasted` the share of
    recommended queries that did not run next. `per_round_regret` counts only the first.
    """
    hit = ranks > 0
    reciprocal = np.where(hit, 1.0 / np.maximum(ranks, 1), 0.0)
    for step in sorted({round(len(ranks) * at / _POINTS) for at in range(1, _POINTS + 1)} - {0}):
        for m in SIZES:
            foreseen = float(np.mean(hit[:step] & (ranks[:step] <= m)))
            yield {
                "protocol": "stream",
                "selection": options.selection if contestant(name).uses_selection else "none",
                "policy": name,
                "pool": options.pool,
                "m": m,
                "seed": options.seed,
                "step": step,
                "hit_at_m": foreseen,
                "mrr": float(reciprocal[:step].mean()),
                "per_round_regret": 1.0 - float(np.mean(ranks[:step] == 1)),
                "foreseen": foreseen,
                "wasted": 1.0 - foreseen / m,
            }


def _write_steps(path: Path, stream: Stream, ranks: dict[str, Ids]) -> None:
    """Write the rank at every step (0: not among the first 20), for paired comparisons."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count = int(stream.scored.sum())
    columns = {
        "policy": pa.array(np.repeat(list(ranks), count)),
        "step": np.tile(np.arange(1, count + 1), len(ranks)),
        "session": np.tile(stream.steps.owner[stream.scored], len(ranks)),
        "rank": np.concatenate(list(ranks.values())),
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())
