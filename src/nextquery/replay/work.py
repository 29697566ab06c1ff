"""The data of a run, and its finished pieces on disk.

Each finished piece is a folder, written in one step, so a run that was killed and started again
does only what is missing. A piece depends only on its options and the data, so the results are the
same, byte for byte, whichever process makes the pieces (`nextquery.replay.runners`) and in whatever
order.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nextquery import folders
from nextquery.arms.pool import ArmPool
from nextquery.errors import NotAFolder
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
