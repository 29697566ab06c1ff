"""`run_stream`: score how well each recommender predicts the next query, and write the files."""

import io
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.checks import installed
from nextquery.memory import KINDS
from nextquery.replay.grid import cost, update_run
from nextquery.replay.prefetch import SIZES, counted, first_m
from nextquery.replay.results import write_atomically, write_rows
from nextquery.replay.runners import Each, runner
from nextquery.replay.sessions import Ids
from nextquery.replay.stream.clock import Stream
from nextquery.replay.stream.contestants import contestant
from nextquery.replay.stream.options import StreamOptions
from nextquery.replay.stream.protocol import follow
from nextquery.replay.stream.steps import ANSWERS, StepResults, answers_by_kind
from nextquery.replay.work import Progress, begin
from nextquery.sessions import Sessions

COLUMNS = [
    *("protocol", "selection", "policy", "pool", "m", "seed", "step"),
    *("hit_at_m", "mrr", "per_round_regret", "foreseen", "wasted"),
]
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
    stream, results = follow(work, options, run, progress)
    rows = (row for name, own in results.items() for row in rows_of(name, own, options))
    write_rows(work.out / "stream.csv", COLUMNS, rows)
    answers = answers_by_kind(stream.past, stream.scored_steps)
    _write_steps(work.out / "stream_steps.parquet", stream, results, answers)
    summary = {"options": asdict(options), **summary_of(stream, answers, results)}
    update_run(work, {"stream": {**summary, **cost(began, processes, each)}})
    return work.out


def summary_of(stream: Stream, answers: Ids, results: dict[str, StepResults]) -> dict[str, Any]:
    """Return what the stream counted: the steps, what can be answered, and hits by kind."""
    shares = np.bincount(answers, minlength=len(ANSWERS)) / max(len(answers), 1)
    return {
        "steps": len(answers),
        "people": len(np.unique(stream.people_of(stream.scored_steps))),
        "personal": bool((stream.past.sessions.people >= 0).any()),
        "start": datetime.fromtimestamp(stream.start, UTC).isoformat(),
        "answers": dict(zip(ANSWERS, shares.round(6).tolist(), strict=True)),
        "recommenders": {
            name: {
                "coverage": float(own.covered.mean()),
                "offered": float(own.offered.mean()),
                "hits_at_10": {
                    kind: int(((own.kinds == at) & (own.ranks > 0) & (own.ranks <= 10)).sum())
                    for at, kind in enumerate(KINDS)
                },
            }
            for name, own in results.items()
        },
    }


def rows_of(name: str, own: StepResults, options: StreamOptions) -> Iterator[dict[str, Any]]:
    """Yield the rows of one recommender: averages over the steps so far, for every m.

    `foreseen` and `wasted` are those of `nextquery.replay.prefetch`: who offers fewer than m
    queries wastes less. `per_round_regret` counts only the first.
    """
    ranks, hit = own.ranks, own.ranks > 0
    reciprocal = np.where(hit, 1.0 / np.maximum(ranks, 1), 0.0)
    for step in sorted({round(len(ranks) * at / _POINTS) for at in range(1, _POINTS + 1)} - {0}):
        for m in SIZES:
            shares = counted(*first_m(ranks[:step], own.offered[:step], m))
            yield {
                "protocol": "stream",
                "selection": options.selection if contestant(name).uses_selection else "none",
                "policy": name,
                "pool": options.pool,
                "m": m,
                "seed": options.seed,
                "step": step,
                "hit_at_m": shares.foreseen,
                "mrr": float(reciprocal[:step].mean()),
                "per_round_regret": 1.0 - float(np.mean(ranks[:step] == 1)),
                "foreseen": shares.foreseen,
                "wasted": shares.wasted,
            }


def _write_steps(path: Path, stream: Stream, results: dict[str, StepResults], answers: Ids) -> None:
    """Write what happened at every step, for paired comparisons; see `StepResults`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    count, places, own = len(answers), stream.scored_steps, list(results.values())
    columns = {
        "policy": pa.array(np.repeat(list(results), count)),
        "step": np.tile(np.arange(1, count + 1), len(own)),
        "session": np.tile(stream.session_of(places), len(own)),
        "rank": np.concatenate([one.ranks for one in own]),
        "person": np.tile(stream.people_of(places), len(own)),
        "answer": pa.array(np.tile(np.array(ANSWERS)[answers], len(own))),
        "candidate": np.concatenate([one.covered for one in own]),
        "kind": pa.array(np.array([*KINDS, ""])[np.concatenate([one.kinds for one in own])]),
        "offered": np.concatenate([one.offered for one in own]),
        "forecast_rank": np.concatenate([one.forecast_ranks for one in own]),
        "probabilities": pa.ListArray.from_arrays(
            np.append(0, np.cumsum(np.concatenate([one.forecast_sizes for one in own]))),
            np.concatenate([one.probabilities for one in own]),
        ),
    }
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd")
    write_atomically(path, buffer.getvalue())
