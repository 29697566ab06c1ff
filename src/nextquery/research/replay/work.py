"""The pieces of a run: played in one process, several, or on other machines; saved to disk.

Each finished piece is a folder, written in one step. So a run that was killed and started again
does only what is missing. A piece depends only on its options and the data. So the results are
the same, byte for byte, whichever process makes the pieces and in whatever order.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from nextquery import folders
from nextquery.arms.pool import ArmPool
from nextquery.errors import InvalidInput, NotAFolder, StorageError
from nextquery.folders import MANIFEST
from nextquery.sessions import Sessions

Progress = Callable[[int, int, str], None]
KIND, VERSION = "nextquery replay piece", 1


class Piece(NamedTuple):
    """A unit of work: its section of the run, a label, and the options that determine it."""

    section: str
    label: str
    options: Any


class Work(NamedTuple):
    """What every worker process needs."""

    pool: ArmPool
    sessions: Sessions
    out: Path
    data: str

    @property
    def people(self) -> tuple[str, ...]:
        """The names of the people in the sessions, by number."""
        origin = self.pool.origin
        if origin is not None and origin.people:
            return tuple(origin.people)
        return tuple(map(str, range(int(self.sessions.people.max(initial=-1)) + 1)))

    def folder(self, piece: Piece) -> Path:
        """Return the folder of a piece: its label, made unique by a hash of options and data."""
        described = json.dumps([piece, self.data])
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        readable = "".join(c if c.isalnum() else "-" for c in piece.label)
        return self.out / piece.section / f"{readable}-{digest}"

    def is_done(self, piece: Piece) -> bool:
        """Whether the piece is finished, by this run or an earlier one."""
        try:
            folders.read(self.folder(piece), kind=KIND, version=VERSION)
        except NotAFolder:
            return False
        return True

    def load(self, piece: Piece) -> dict[str, Any]:
        """Return the arrays of a finished piece."""
        folder = folders.read(self.folder(piece), kind=KIND, version=VERSION)
        return {name.removesuffix(".npy"): np.array(folder.array(name)) for name in folder.files}

    def keep(self, piece: Piece, arrays: Mapping[str, Any]) -> None:
        """Write the arrays of a finished piece, all or nothing."""
        parts: dict[str, folders.Part] = {f"{name}.npy": array for name, array in arrays.items()}
        meta = {"words": piece.label, "options": repr(piece.options), "data": self.data}
        folders.write(self.folder(piece), kind=KIND, version=VERSION, parts=parts, meta=meta)


def begin(pool: ArmPool, sessions: Sessions, out: str | os.PathLike[str]) -> Work:
    """Check the data of a run. Its folder is created by its first piece: `run_missing`."""
    past = Sessions.of(sessions, pool.rows_in_all)
    digest = hashlib.sha256()  # so that results of other data are never reused
    for array in (pool.vectors, pool.removed, *past):
        digest.update(np.ascontiguousarray(array).data)
    return Work(pool, past, Path(out), digest.hexdigest())


def default_processes() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Task = Callable[[Work, Piece], None]
Run = Callable[[Work, Sequence[Piece], Task], Iterator[Piece]]
"""Runs pieces, in any order and anywhere, and yields each one when it is done."""


def run_missing(
    work: Work, pieces: Sequence[Piece], task: Task, run: Run, progress: Progress | None = None
) -> None:
    """Run the pieces that are not done yet. `task` must write its piece with `Work.keep`."""
    work.out.mkdir(parents=True, exist_ok=True)
    missing = [piece for piece in pieces if not work.is_done(piece)]
    for done, piece in enumerate(run(work, missing, task), start=1):
        if progress is not None:
            progress(done, len(missing), piece.label)


def label_of(parts: Iterable[object]) -> str:
    """Join the values that are not None into a label.

    >>> label_of(["max-utility", 250, None])
    'max-utility 250'
    """
    return " ".join(str(part) for part in parts if part is not None)


Each = Callable[[Callable[[Any], None], Sequence[Any]], Iterator[Any]]
"""Calls a function with each value, on other machines, and yields a value when its call is done.

Function and values are sent by pickle. An error in a call is raised and cancels the rest.
"""


def runner(processes: int | None = None, each: Each | None = None) -> Run:
    """Return how to run pieces: in parallel processes on this machine, or through `each`."""
    if each is None:
        return partial(in_processes, processes=processes or default_processes())
    if processes is not None:
        raise InvalidInput(
            f"received both processes={processes} and each: processes run on this machine, and a "
            "cluster has its own number of CPUs. Pass only one of them."
        )
    return partial(on_other_machines, each=each)


def in_processes(
    work: Work, pieces: Sequence[Piece], task: Task, *, processes: int
) -> Iterator[Piece]:
    """Yield the pieces as they finish; an error in any of them stops the run."""
    if processes == 1 or len(pieces) < 2:
        for piece in pieces:
            with threadpool_limits(1):
                task(work, piece)
            yield piece
        return
    # A forked child shares the pool's memory. If forking is not safe, the pool is sent instead.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(min(processes, len(pieces)), context, _start, (work,)) as executor:
        futures = {executor.submit(_run, task, piece): piece for piece in pieces}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BaseException:
            workers = list(executor._processes.values())
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()  # pieces are written in one step, so nothing is left half-written
            raise


_current: list[Work] = []  # in a worker process: the work it was started with


def _start(work: Work) -> None:
    _current[:] = [work]
    for name in (signal.SIGINT, signal.SIGTERM):  # only the parent stops a worker
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent was killed; otherwise the worker would wait for work forever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _run(task: Task, piece: Piece) -> None:
    with threadpool_limits(1):  # processes share the cores, and sums must not depend on threads
        task(_current[0], piece)


class RemoteWork(NamedTuple):
    """A `Work` to send: the pool is the path of its vectors, which are mapped on arrival."""

    vectors: Path
    sessions: Sessions
    out: Path
    data: str


def on_other_machines(
    work: Work, pieces: Sequence[Piece], task: Task, *, each: Each
) -> Iterator[Piece]:
    """Yield the pieces as they finish on other machines, which write into the same folder."""
    if pieces:
        sent = RemoteWork(_vectors_of(work), work.sessions, work.out.absolute(), work.data)
        yield from each(partial(_run_there, sent, task), pieces)


def _vectors_of(work: Work) -> Path:
    """Return the file of the pool's vectors; save the pool in the run's folder if it has none.

    The file is named after its content, so a pool that was replaced meanwhile is noticed.
    """
    copy = work.out / "pools" / work.data[:16]
    if not (copy / MANIFEST).exists():
        stored = work.pool.parts()["vectors.npy"]
        if isinstance(stored, Path) and _is_saved_as(stored, work.pool):
            return stored.absolute()
        work.pool.save(copy)
    return _vectors_file(ArmPool.open(copy)).absolute()


def _is_saved_as(vectors: Path, pool: ArmPool) -> bool:
    try:
        return np.array_equal(ArmPool.open(vectors.parent).removed, pool.removed)
    except NotAFolder:  # a pool inside another kind of folder
        return False


def _vectors_file(pool: ArmPool) -> Path:
    file = pool.parts()["vectors.npy"]
    assert isinstance(file, Path)  # the pool was just opened
    return file


_opened: dict[tuple[Path, Path, str], Work] = {}  # on another machine: the last work opened


def _run_there(sent: RemoteWork, task: Task, piece: Piece) -> None:
    key = (sent.vectors, sent.out, sent.data)
    if key not in _opened:
        pool = ArmPool.open(sent.vectors.parent)
        if _vectors_file(pool) != sent.vectors:
            raise StorageError(
                f"the pool {sent.vectors.parent} was replaced while a run used it. Start the "
                "run again to use the new pool."
            )
        _opened.clear()
        _opened[key] = Work(pool, sent.sessions, sent.out, sent.data)
    with threadpool_limits(1):
        task(_opened[key], piece)
