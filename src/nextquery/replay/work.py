"""What a run works on, and its finished pieces on disk.

A finished piece is a folder of its own, written in one step. So a run that was killed and started
again does only what is missing, and since a piece depends on nothing but its own options and the
data, the results are the same bytes whoever makes the pieces (`nextquery.replay.runners`), and in
whatever order.
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
    """Something to be done once: its section of the run, words for people, and what decides it."""

    section: str
    words: str
    options: Any


class Work(NamedTuple):
    """What every process needs to know."""

    pool: ArmPool
    sessions: Sessions
    out: Path
    data: str

    def folder(self, piece: Piece) -> Path:
        """Where a piece lies: a readable name, made unique by a hash of all that decides it."""
        described = json.dumps([piece, self.data])
        digest = hashlib.sha256(described.encode()).hexdigest()[:16]
        readable = "".join(c if c.isalnum() else "-" for c in piece.words)
        return self.out / piece.section / f"{readable}-{digest}"

    def is_done(self, piece: Piece) -> bool:
        """Whether the piece was finished, by this run or one before."""
        try:
            folders.read(self.folder(piece), kind=KIND, version=VERSION)
        except NotAFolder:
            return False
        return True

    def load(self, piece: Piece) -> dict[str, Any]:
        """The arrays of a finished piece."""
        folder = folders.read(self.folder(piece), kind=KIND, version=VERSION)
        return {name.removesuffix(".npy"): np.array(folder.array(name)) for name in folder.files}

    def keep(self, piece: Piece, arrays: Mapping[str, Any]) -> None:
        """Write the arrays of a finished piece, all of them or nothing."""
        parts: dict[str, folders.Part] = {f"{name}.npy": array for name, array in arrays.items()}
        meta = {"words": piece.words, "options": repr(piece.options), "data": self.data}
        folders.write(self.folder(piece), kind=KIND, version=VERSION, parts=parts, meta=meta)


def begin(pool: ArmPool, sessions: Sessions, out: str | os.PathLike[str]) -> Work:
    """Check the data and make the folder of a run."""
    past = Sessions.of(sessions, pool.rows_in_all)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()  # results of other data must never be taken for these
    for array in (pool.vectors, pool.removed, *past):
        digest.update(np.ascontiguousarray(array).data)
    return Work(pool, past, folder, digest.hexdigest())


def default_processes() -> int:
    """As many as this process may use cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


Task = Callable[[Work, Piece], None]
Run = Callable[[Work, Sequence[Piece], Task], Iterator[Piece]]
"""Does pieces, in any order and anywhere, and yields each when it is done."""


def do(
    work: Work, pieces: Sequence[Piece], task: Task, run: Run, progress: Progress | None = None
) -> None:
    """Do the pieces that are not done yet. `task` must write its piece with `Work.keep`."""
    missing = [piece for piece in pieces if not work.is_done(piece)]
    for done, piece in enumerate(run(work, missing, task), start=1):
        if progress is not None:
            progress(done, len(missing), piece.words)


def words_of(parts: Iterable[object]) -> str:
    """Words for people, from a few values.

    >>> words_of(["max-utility", 250, None])
    'max-utility 250'
    """
    return " ".join(str(part) for part in parts if part is not None)
