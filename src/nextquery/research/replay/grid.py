"""Run an experiment grid and write its result files, averages over seeds and data facts.

Every seed plays the same anchors, so an anchor is averaged over its seeds first, and then anchors
are resampled. An anchor's draws do not depend on another anchor's. So the spread between anchors
contains the luck of the draws: the interval covers both the anchors and the seeds.

The data facts are arms above thresholds (Table 2) and example sessions.
"""

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nextquery.arms.pool import ArmPool
from nextquery.checks import installed
from nextquery.research.replay.anchored import Finished, run_cells
from nextquery.research.replay.cells import Cell, Ids, Options, draw_anchors, generator
from nextquery.research.replay.metrics import bands
from nextquery.research.replay.results import (
    COLUMNS,
    described,
    rows_of,
    write_anchors,
    write_json,
    write_rows,
)
from nextquery.research.replay.work import Each, Progress, Work, begin, default_processes, runner
from nextquery.segments import text_of
from nextquery.sessions import Sessions

AVERAGES = ["seeds" if name == "seed" else name for name in COLUMNS]
CANDIDATES = ["selection", "reading", "k", "epsilon", "seeds", "arms", "floor", "anchors"]


def average_rows(results: Sequence[Finished], encoder: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``averages.csv``: those of ``results.csv``, averaged over the seeds."""
    for group in _by_seed(results):
        first = group[0]
        regrets = np.mean([result.regrets for result in group], axis=0)
        mean, low, high = bands(regrets / first.recorded, first.cell.setting.anchor_seed)
        fields = described(first, encoder)
        del fields["seed"]
        for at, t in enumerate(first.recorded.tolist()):
            yield {
                **fields,
                "seeds": len(group),
                "round": t,
                "regret": float(regrets[:, at].mean()),
                "per_round_regret": float(mean[at]),
                "ci_low": float(low[at]),
                "ci_high": float(high[at]),
                "floor": 1.0 - float(np.mean([result.covered for result in group])),
                "anchors": len(regrets),
            }


def candidate_rows(results: Sequence[Finished]) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``candidates.csv``: how many arms every selection takes, and the floor."""
    done = set()
    for group in _by_seed(results):
        cell = group[0].cell
        setting = cell.setting._replace(seed=0)
        if cell.schedule != "none" or setting in done:
            continue
        done.add(setting)
        yield {
            "selection": setting.selection,
            "reading": setting.reading,
            "k": setting.k,
            "epsilon": f"{setting.epsilon:g}",
            "seeds": len(group),
            "arms": float(np.mean([result.sizes for result in group])),
            "floor": 1.0 - float(np.mean([result.covered for result in group])),
            "anchors": len(group[0].sizes),
        }


def _by_seed(results: Sequence[Finished]) -> list[list[Finished]]:
    """Return the results of cells that differ only in their seed together, in order."""
    groups: dict[Cell, list[Finished]] = {}
    for result in results:
        cell = result.cell
        same = cell._replace(setting=cell.setting._replace(seed=0))
        groups.setdefault(same, []).append(result)
    return list(groups.values())


THRESHOLDS = (0.25, 0.4, 0.5, 0.6)
_SHOWN = 5  # sessions in Figure 1
_BLOCK = 8192


def describe(work: Work, *, anchors: int, seed: int, held_out: int = 0) -> None:
    """Write ``similar_arms.csv`` (Table 2) and ``sessions.csv`` (Figure 1, examples)."""
    drawn = draw_anchors(work.sessions, anchors, seed, held_out)
    with threadpool_limits(1):
        counts = arms_above(work.pool, drawn.arms)
    rows = [
        {"threshold": f"{threshold:g}", "arms": float(count), "anchors": len(drawn.arms)}
        for threshold, count in zip(THRESHOLDS, counts.mean(axis=0), strict=True)
    ]
    write_rows(work.out / "similar_arms.csv", ("threshold", "arms", "anchors"), rows)
    names = ("session", "position", "x", "y", "query")
    write_rows(work.out / "sessions.csv", names, _examples(work, seed))


def arms_above(pool: ArmPool, anchors: Ids) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Count, for each anchor, the other arms at or above each similarity threshold.

    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> arms_above(pool, np.array([0])).tolist()
    [[1, 1, 1, 1]]
    """
    rows, counts = pool.rows(anchors), np.zeros((len(anchors), len(THRESHOLDS)), np.int64)
    vectors = pool.vectors
    for start in range(0, len(vectors), _BLOCK):
        products = vectors[start : start + _BLOCK] @ rows.T
        removed = pool.removed[(pool.removed >= start) & (pool.removed < start + _BLOCK)] - start
        products[removed] = -1.0
        own = np.flatnonzero((anchors >= start) & (anchors < start + _BLOCK))
        products[anchors[own] - start, own] = -1.0
        for column, threshold in enumerate(THRESHOLDS):
            counts[:, column] += np.count_nonzero(products >= threshold, axis=0)
    return counts


def _examples(work: Work, seed: int) -> Iterator[dict[str, Any]]:
    """Yield five sessions of at least four queries, projected on their two main directions."""
    chosen = _typical(work.sessions, seed)
    queries = [work.sessions.of_number(session) for session in chosen]
    vectors = work.pool.rows(np.concatenate(queries)).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ directions[:2].T
    plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    row = 0
    for number, session in enumerate(queries, start=1):
        for position, arm in enumerate(session.tolist(), start=1):
            x, y = plane[row]
            query = text_of(work.pool.texts[arm])
            yield {"session": number, "position": position, "x": x, "y": y, "query": query}
            row += 1


def _typical(sessions: Sessions, seed: int) -> list[int]:
    lengths = np.diff(sessions.offsets)
    long_enough = np.flatnonzero((lengths >= 4) & (lengths <= 20))
    if not len(long_enough):
        long_enough = np.flatnonzero(lengths)
    rng = generator(seed, "examples")
    drawn = rng.choice(long_enough, min(_SHOWN, len(long_enough)), replace=False)
    return [int(session) for session in drawn]


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
