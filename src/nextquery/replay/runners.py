"""Who makes the pieces of a run: this process, several of this machine, or others elsewhere."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from nextquery.arms.pool import ArmPool
from nextquery.errors import InvalidInput, NotAFolder, StorageError
from nextquery.folders import MANIFEST
from nextquery.replay.work import Piece, Run, Task, Work, default_processes
from nextquery.sessions import Sessions

Each = Callable[[Callable[[Any], None], Sequence[Any]], Iterator[Any]]
"""Calls a function with each of some values, elsewhere, and yields a value when its call ended.

Function and values are sent over by pickle. An error of a call is raised and ends the rest.
"""


def runner(processes: int | None = None, each: Each | None = None) -> Run:
    """How pieces are made: in parallel processes of this machine, or by `each`, elsewhere."""
    if each is None:
        return partial(in_processes, processes=processes or default_processes())
    if processes is not None:
        raise InvalidInput(
            f"received {processes} processes and a place elsewhere: processes are those of this "
            "machine, and a cluster has its own number of CPUs. Give one of the two."
        )
    return partial(elsewhere, each=each)


def in_processes(
    work: Work, pieces: Sequence[Piece], task: Task, *, processes: int
) -> Iterator[Piece]:
    """The pieces as they end; an error in any of them stops the run."""
    if processes == 1 or len(pieces) < 2:
        for piece in pieces:
            with threadpool_limits(1):
                task(work, piece)
            yield piece
        return
    # A forked child shares the pool's memory; where forking is not safe the pool is sent over.
    how = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(min(processes, len(pieces)), how, _start, (work,)) as executor:
        futures = {executor.submit(_run, task, piece): piece for piece in pieces}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BaseException:
            workers = list(executor._processes.values())
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()  # a piece is written in one step: what is half done was never there
            raise


_here: list[Work] = []  # in a worker process: what it works on


def _start(work: Work) -> None:
    _here[:] = [work]
    for name in (signal.SIGINT, signal.SIGTERM):  # its parent ends it, whatever reaches the group
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def _end_with(parent: int) -> None:
    """A worker whose parent was killed would wait for work for ever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _run(task: Task, piece: Piece) -> None:
    with threadpool_limits(1):  # processes share the cores; and sums do not depend on threads
        task(_here[0], piece)


class Sent(NamedTuple):
    """A `Work` as it travels: the pool by the path of its vectors, which are mapped there."""

    vectors: Path
    sessions: Sessions
    out: Path
    data: str


def elsewhere(work: Work, pieces: Sequence[Piece], task: Task, *, each: Each) -> Iterator[Piece]:
    """The pieces as they end on other machines, which write them into the same folder."""
    if pieces:
        sent = Sent(_vectors_of(work), work.sessions, work.out.absolute(), work.data)
        yield from each(partial(_there, sent, task), pieces)


def _vectors_of(work: Work) -> Path:
    """Where the pool's vectors lie on disk; a pool that lies nowhere is saved in the run's folder.

    Their file is named after their content, so a pool that was replaced meanwhile is noticed.
    """
    copy = work.out / "pools" / work.data[:16]
    if not (copy / MANIFEST).exists():
        stored = work.pool.parts()["vectors.npy"]
        if isinstance(stored, Path) and _stands(stored, work.pool):
            return stored.absolute()
        work.pool.save(copy)
    return _file(ArmPool.open(copy)).absolute()


def _stands(vectors: Path, pool: ArmPool) -> bool:
    try:
        return np.array_equal(ArmPool.open(vectors.parent).removed, pool.removed)
    except NotAFolder:  # a pool inside the folder of something else
        return False


def _file(pool: ArmPool) -> Path:
    file = pool.parts()["vectors.npy"]
    assert isinstance(file, Path)  # of a pool just opened
    return file


_opened: dict[tuple[Path, Path, str], Work] = {}  # elsewhere: what was worked on last


def _there(sent: Sent, task: Task, piece: Piece) -> None:
    key = (sent.vectors, sent.out, sent.data)
    if key not in _opened:
        pool = ArmPool.open(sent.vectors.parent)
        if _file(pool) != sent.vectors:
            raise StorageError(
                f"the pool {sent.vectors.parent} was replaced while a run used it. Start the run "
                "again: it then uses the new pool."
            )
        _opened.clear()
        _opened[key] = Work(pool, sent.sessions, sent.out, sent.data)
    with threadpool_limits(1):
        task(_opened[key], piece)
