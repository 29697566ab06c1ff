"""`run_grid`: run an experiment grid and write its result files."""

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.checks import installed
from nextquery.replay.anchored.protocol import run_cells
from nextquery.replay.averages import AVERAGES, CANDIDATES, average_rows, candidate_rows
from nextquery.replay.cells import Cell, Options
from nextquery.replay.describe import describe
from nextquery.replay.results import COLUMNS, rows_of, write_anchors, write_json, write_rows
from nextquery.replay.runners import Each, runner
from nextquery.replay.work import Progress, Work, begin, default_processes
from nextquery.sessions import Sessions

_PACKAGES = ("numpy", "scipy", "numba", "pyarrow", "matplotlib")


def run_grid(
    pool: ArmPool,
    sessions: Sessions,
    out: str | os.PathLike[str],
    options: Options | Sequence[Options],
    progress: Progress | None = None,
    *,
    processes: int | None = None,
    each: Each | None = None,
) -> Path:
    """Run one grid, or several together, and write the result files into the folder `out`.

    Finished cells are kept in ``out/cells``, so an interrupted run resumes where it stopped. The
    files are ``results.csv`` (every seed), ``averages.csv`` (over the seeds), ``candidates.csv``,
    ``anchors.parquet``, ``run.json`` and, for the report, ``sessions.csv`` and
    ``similar_arms.csv``. `progress` is called with the number of tasks done,
    their total, and the name of the last one. Cells run in `processes` on this machine, or through
    `each`, such as `nextquery.cluster.tasks.TasksOnRay`. The results are the same, byte for byte.
    """
    installed("replay", "pyarrow")
    began, run = time.perf_counter(), runner(processes, each)
    grids = [options] if isinstance(options, Options) else list(options)
    work = begin(pool, sessions, out)
    cells = _distinct(grids)
    results = run_cells(work, cells, run, progress)
    first = grids[0]
    describe(work, anchors=first.anchors, seed=first.anchor_seed, held_out=first.held_out)
    encoder = grids[0].encoder
    rows = (row for result in results for row in rows_of(result, encoder))
    write_rows(work.out / "results.csv", COLUMNS, rows)
    write_rows(work.out / "averages.csv", AVERAGES, average_rows(results, encoder))
    write_rows(work.out / "candidates.csv", CANDIDATES, candidate_rows(results))
    write_anchors(work.out / "anchors.parquet", results, encoder)
    summary = {"options": [asdict(grid) for grid in grids], "cells": len(cells)}
    update_run(work, {"anchored": {**summary, **cost(began, processes, each)}})
    return work.out


def update_run(work: Work, entries: dict[str, Any]) -> None:
    """Add entries to ``run.json``, and keep those of other parts of the same run."""
    path = work.out / "run.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    base = {
        "data": facts(work),
        "versions": {
            "python": platform.python_version(),
            "nextquery": _version("nextquery"),
            **{name: _version(name) for name in _PACKAGES},
        },
        "machine": {"system": platform.platform(), "cores": default_processes()},
    }
    write_json(path, {**old, **base, **entries})


def facts(work: Work) -> dict[str, Any]:
    """Return the figures of Table 3 for the data."""
    lengths = np.diff(work.sessions.offsets)
    return {
        "arms": len(work.pool),
        "dim": work.pool.dim,
        "queries": len(work.sessions.arms),
        "sessions": len(lengths),
        "queries_per_session": float(lengths.mean()) if len(lengths) else 0.0,
        "fingerprint": work.data,
    }


def cost(began: float, processes: int | None, each: Each | None) -> dict[str, Any]:
    """Return what a part of a run took: time, processes, and peak memory.

    On other machines, processes and their memory are not counted.
    """
    # Linux reports kibibytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    seconds = round(time.perf_counter() - began, 1)
    if each is not None:
        return {"seconds": seconds, "processes": None, "peak_bytes_main": own}
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    count = processes or default_processes()
    return {
        "seconds": seconds,
        "processes": count,
        "peak_bytes_main": own,
        "peak_bytes_largest_worker": child,
        "peak_bytes_at_most": own + count * child,
    }


def _distinct(grids: Sequence[Options]) -> list[Cell]:
    return list(dict.fromkeys(cell for grid in grids for cell in grid.cells()))


def _version(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:  # run from a source tree, not installed
        return "not installed"
