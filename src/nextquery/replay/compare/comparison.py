"""`run_comparison`: play every recommender, measure its costs, and write the files."""

import os
from dataclasses import asdict
from functools import partial
from pathlib import Path

from nextquery.arms.pool import ArmPool
from nextquery.checks import installed
from nextquery.replay.compare.costs import cost_piece, keep_cost
from nextquery.replay.compare.options import CompareOptions, started
from nextquery.replay.compare.results import (
    COLUMNS,
    COST_COLUMNS,
    COSTS,
    FILE,
    compared,
    cost_row,
)
from nextquery.replay.compare.table import comparison_page
from nextquery.replay.compare.tuning import entered, tune
from nextquery.replay.grid import update_run
from nextquery.replay.results import write_atomically, write_rows
from nextquery.replay.runners import in_processes, runner
from nextquery.replay.stream_results import run_stream
from nextquery.replay.work import Progress, begin, run_missing
from nextquery.sessions import Sessions

PAGE = "compare.md"


def run_comparison(
    pool: ArmPool,
    sessions: Sessions,
    out: str | os.PathLike[str],
    options: CompareOptions | None = None,
    progress: Progress | None = None,
    *,
    processes: int | None = None,
) -> Path:
    """Compare recommenders on a log by the clock, and write the result files into the folder `out`.

    Those of `run_stream`, and ``tuning.csv``, ``costs.csv``, ``compare.csv`` (one row for each
    recommender) and ``compare.md``. An interrupted run resumes where it stopped.
    """
    installed("replay", "pyarrow")
    options = CompareOptions() if options is None else options
    work = begin(pool, sessions, out)
    start = started(pool, work.sessions, options).start
    work.out.mkdir(parents=True, exist_ok=True)
    chosen = tune(work, options, start, runner(processes), progress)
    names = entered(options, chosen)
    window = options.window(names)
    run_stream(pool, work.sessions, out, window, progress, processes=processes)
    pieces = {name: cost_piece(window, name, options.timed) for name in names}
    alone = partial(in_processes, processes=1)  # so that nothing else is timed
    run_missing(work, list(pieces.values()), keep_cost, alone, progress)
    rows = [cost_row(name, work.load(piece)) for name, piece in pieces.items()]
    write_rows(work.out / COSTS, COST_COLUMNS, rows)
    write_rows(work.out / FILE, COLUMNS, compared(work.out))
    told = {**asdict(options), "models": [str(folder) for folder in options.models]}
    update_run(work, {"compare": {"options": told}})
    write_atomically(work.out / PAGE, comparison_page(work.out).encode())
    return work.out / PAGE
