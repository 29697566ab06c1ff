"""Running a grid: in parallel processes, and never the same cell twice.

A finished cell is a folder of its own, written in one step. So a run that was killed and started
again does only what is missing, and since a cell depends on nothing but its own options and the
data, the results are the same bytes whatever the number of processes or the order of cells.
"""

import hashlib
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from nextquery import folders
from nextquery.arms.pool import ArmPool
from nextquery.errors import NotAFolder
from nextquery.replay.candidates import CandidateSets, select_sets
from nextquery.replay.cells import Cell, Setting, key, recorded_rounds
from nextquery.replay.engine import Game, play, rewards_at
from nextquery.replay.names import policy_named, selector_named
from nextquery.replay.sessions import PastSessions, draw_anchors

Progress = Callable[[int, int, str], None]
VERSION = 1
SETS, CELL = "nextquery replay candidates", "nextquery replay cell"


class Work(NamedTuple):
    """What every process needs to know."""

    pool: ArmPool
    sessions: PastSessions
    out: Path
    data: str


class Finished(NamedTuple):
    """A cell's result: the rewards each anchor had by each recorded round."""

    cell: Cell
    sessions: NDArray[np.int64]
    covered: NDArray[np.bool_]
    recorded: NDArray[np.int64]
    rewards: NDArray[np.int32]

    @property
    def regrets(self) -> NDArray[np.float64]:
        """R(t) of every anchor at the recorded rounds."""
        return (self.recorded - self.rewards).astype(np.float64)


def fingerprint(pool: ArmPool, sessions: PastSessions) -> str:
    """A hash of the data, so that results of other data are never taken for these."""
    digest = hashlib.sha256()
    for array in (pool.vectors, pool.removed, sessions.arms, sessions.offsets, sessions.times):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def run_cells(
    work: Work,
    cells: Sequence[Cell],
    processes: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Do the cells that are not finished: first their candidate sets, then their rounds."""
    missing = [cell for cell in cells if _read(work, cell, CELL) is None]
    settings = dict.fromkeys(cell.setting for cell in missing)
    unselected = [setting for setting in settings if _read(work, setting, SETS) is None]
    total = len(unselected) + len(missing)
    done = _run(work, _select, unselected, processes, progress, 0, total)
    # The longest first, so that no process is left alone with one at the end.
    slowest_first = sorted(missing, key=lambda cell: not cell.policy.startswith("lin-"))
    _run(work, _play, slowest_first, processes, progress, done, total)


def finished(work: Work, cell: Cell) -> Finished:
    """The result of a cell that `run_cells` has done."""
    folder = folders.read(_folder(work, cell, CELL), kind=CELL, version=VERSION)
    arrays = {name: np.array(folder.array(f"{name}.npy")) for name in Finished._fields[1:]}
    return Finished(cell, **arrays)


def default_processes() -> int:
    """As many as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    work: Work,
    task: Callable[[Any], None],
    things: Sequence[Any],
    processes: int | None,
    progress: Progress | None,
    done: int,
    total: int,
) -> int:
    for thing in _ended(work, task, things, processes or default_processes()):
        done += 1
        if progress is not None:
            progress(done, total, key(thing, work.data).rsplit("-", 1)[0])
    return done


def _ended(
    work: Work, task: Callable[[Any], None], things: Sequence[Any], processes: int
) -> Iterable[Any]:
    """The things whose task has ended, as they end; an error in any of them stops the run."""
    if processes == 1 or len(things) < 2:
        _begin(work)
        for thing in things:
            task(thing)
            yield thing
        return
    # A forked child shares the pool's memory; where forking is not safe the pool is sent over.
    how = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(min(processes, len(things)), how, _begin, (work,)) as executor:
        futures = {executor.submit(task, thing): thing for thing in things}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise


_WORK: list[Work] = []  # what this process works on


def _begin(work: Work) -> None:
    _WORK[:] = [work]


def _select(setting: Setting) -> None:
    work = _WORK[0]
    selector = selector_named(
        setting.selection, k=setting.k or 1, epsilon=setting.epsilon, reading=setting.reading
    )
    anchors = draw_anchors(work.sessions, setting.anchors, setting.seed)
    with threadpool_limits(1):  # processes share the cores, and sums stay the same
        sets = select_sets(work.pool, work.sessions, anchors, selector, setting.seed)
    _write(work, setting, SETS, sets._asdict())


def _play(cell: Cell) -> None:
    work, setting = _WORK[0], cell.setting
    stored = folders.read(_folder(work, setting, SETS), kind=SETS, version=VERSION)
    arrays = {name: np.array(stored.array(f"{name}.npy")) for name in CandidateSets._fields}
    sets = CandidateSets(**arrays)
    anchors = draw_anchors(work.sessions, setting.anchors, setting.seed)
    game = Game(work.pool, anchors.arms, sets, cell.rounds, cell.growth())
    recorded = np.array(recorded_rounds(cell.rounds))
    with threadpool_limits(1):
        played = play(game, policy_named(cell.policy), cell.policy, setting.seed)
    rewards = rewards_at(game, played, recorded)
    result = Finished(cell, anchors.sessions, sets.covered(), recorded, rewards)
    _write(work, cell, CELL, {name: getattr(result, name) for name in Finished._fields[1:]})


def _folder(work: Work, thing: Setting | Cell, kind: str) -> Path:
    return work.out / ("cells" if kind == CELL else "candidates") / key(thing, work.data)


def _read(work: Work, thing: Setting | Cell, kind: str) -> folders.Folder | None:
    try:
        return folders.read(_folder(work, thing, kind), kind=kind, version=VERSION)
    except NotAFolder:
        return None


def _write(work: Work, thing: Setting | Cell, kind: str, arrays: dict[str, Any]) -> None:
    parts: dict[str, folders.Part] = {f"{name}.npy": array for name, array in arrays.items()}
    meta = {"of": repr(thing), "data": work.data}
    folders.write(_folder(work, thing, kind), kind=kind, version=VERSION, parts=parts, meta=meta)
