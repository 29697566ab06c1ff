"""One shard: a range of a pool's rows, mapped and searched by a long-lived actor.

A shard has no files of its own. It is the rows [first, last) of an ordinary pool folder, so ids do
not depend on the number of shards, and an actor that restarts, here or on another machine, loads
its rows again from the shared path.
"""

import os
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nextquery import folders
from nextquery.arms.coded import Codes
from nextquery.arms.kernels import Ids
from nextquery.arms.pool import NO_IDS, begins_with
from nextquery.arms.scan import Band, RowRange, Rows, scan_rows
from nextquery.errors import StorageError


class Share(NamedTuple):
    """The folder and range of rows of a shard."""

    folder: folders.Folder
    first: int
    last: int

    def load(self) -> Rows:
        """Map the rows; rows that are never read use no memory.

        Files are named after their content. If this shard's file is gone, the pool was saved
        again, and the new manifest shows whether its rows start with the same ones.
        """
        try:
            exists = self.folder.file("vectors.npy").exists()
            folder = self.folder if exists else folders.newest(self.folder)
            same = begins_with(folder, self.folder)
            vectors = folder.array("vectors.npy")[self.first : self.last]
            codes = Codes.open(folder)
        except (OSError, EOFError, ValueError, KeyError) as error:
            raise StorageError(
                f"{socket.gethostname()} cannot read arms {self.first} to {self.last - 1} of the "
                f"pool {self.folder.path}: {error} Put the pool on a path that every node of the "
                "cluster can read under the same name."
            ) from error
        if not same or len(vectors) != self.last - self.first:
            raise StorageError(
                f"the pool {self.folder.path}, as {socket.gethostname()} sees it, is not the one "
                "that was opened, with or without added arms. Open the pool again."
            )
        return Rows(vectors, None if codes is None else codes.cut(self.first, self.last))


class View(NamedTuple):
    """The arms that a pool object has removed: pools share shards, but not removals.

    The removed arms of a view only grow, so their number in this shard, `how_many`, identifies the
    version. `removed` is sent if the shard may not know them; `forget` lists views that ended.
    """

    token: int
    how_many: int
    removed: Ids | None = None
    forget: tuple[int, ...] = ()


class Shard:
    """The actor. It runs tasks, which are functions of a `Part`, next to the rows.

    Nothing is loaded before the first task or ping, so that an error in the files is returned and
    does not kill the actor.
    """

    def __init__(self, share: Share, threads: int | None = None, sharing: int = 1) -> None:
        self._share = share
        self._rows: Rows | None = None
        self._views: dict[int, Ids] = {}
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        use_threads(threads or max(1, (cores or 1) // sharing))
        warm_up()

    def ping(self) -> str:
        """Return at once, also during a task: an empty string, or why no task can run."""
        try:
            self._load()
        except StorageError as error:
            return str(error)
        return ""

    def do(self, task: Callable[..., Any], view: View, *args: Any) -> tuple[Any] | str | None:
        """Run a task: return (answer,), None if `removed` must be sent, or why it cannot run."""
        for token in view.forget:
            self._views.pop(token, None)
        if view.removed is not None:
            self._views[view.token] = view.removed - self._share.first
        removed = self._views.get(view.token, NO_IDS) if view.how_many else NO_IDS
        if len(removed) != view.how_many:
            return None
        try:
            rows = self._load()
        except StorageError as error:
            return str(error)
        return (task(RowRange(rows, self._share.first, removed), *args),)

    def _load(self) -> Rows:
        if self._rows is None:
            self._rows = self._share.load()
        return self._rows


def use_threads(count: int) -> None:
    """Set the number of threads of BLAS, and so of the scan; Ray starts workers with one."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=count, user_api="blas")


def warm_up() -> None:
    """Load the scan's compiled code, which takes seconds, before the first ping is answered."""
    rows = np.ones((2, 2), np.float32)
    coded = Rows(rows, Codes.of(rows))
    for count, epsilon in (1, None), (1, 0.5), (2, 0.5):
        exclude = [NO_IDS] * count
        scan_rows(coded, NO_IDS, rows[:count], [Band(1)], exclude=exclude, epsilon=epsilon)
