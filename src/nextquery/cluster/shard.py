"""One shard: a range of a pool's rows, mapped by an actor that stays and answers for them.

A shard is no file of its own. It is the rows [first, last) of an ordinary pool folder, so ids do
not depend on how many shards there are, and an actor that comes back, here or on another machine,
loads its part again from the path that all nodes reach.
"""

import os
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nextquery import folders
from nextquery.arms.codes import Codes
from nextquery.arms.ids import NO_IDS
from nextquery.arms.kernels import Ids
from nextquery.arms.rows import Part, Rows
from nextquery.arms.scan import scan_rows
from nextquery.arms.search import Band
from nextquery.arms.storage import begins_with
from nextquery.errors import StorageError


class Share(NamedTuple):
    """Which rows of which folder a shard answers for."""

    folder: folders.Folder
    first: int
    last: int

    def load(self) -> Rows:
        """The rows, mapped: what is never read costs no memory.

        Files are named after their content. Where ours is gone the pool was saved anew, and the
        new manifest says whether its rows begin with ours.
        """
        try:
            there = self.folder.file("vectors.npy").exists()
            folder = self.folder if there else folders.newest(self.folder)
            same = begins_with(folder, self.folder)
            vectors = folder.array("vectors.npy")[self.first : self.last]
            codes = Codes.open(folder)
        except (OSError, EOFError, ValueError, KeyError) as error:
            raise StorageError(
                f"{socket.gethostname()} cannot read arms {self.first} to {self.last - 1} of the "
                f"pool {self.folder.path}: {error} Put the pool on a path that every node of the "
                "cluster reaches under the same name."
            ) from error
        if not same or len(vectors) != self.last - self.first:
            raise StorageError(
                f"the pool {self.folder.path}, as {socket.gethostname()} sees it, is not the one "
                "that was opened, with or without further arms. Open the pool again."
            )
        return Rows(vectors, None if codes is None else codes.cut(self.first, self.last))


class View(NamedTuple):
    """Which arms a pool object has removed: shards are shared, what is removed is not.

    The removed arms of a view only become more, so `how_many` in this shard says which version
    is meant. `removed` is given when the shard may not know them, `forget` names views that ended.
    """

    token: int
    how_many: int
    removed: Ids | None = None
    forget: tuple[int, ...] = ()


class Shard:
    """The actor. It runs tasks, functions of a `Part`, where the rows are.

    Nothing is loaded before the first task or ping: an error of the files is then an answer, and
    not one more death of the actor.
    """

    def __init__(self, share: Share, threads: int | None = None, sharing: int = 1) -> None:
        self._share = share
        self._rows: Rows | None = None
        self._views: dict[int, Ids] = {}
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        use_threads(threads or max(1, (cores or 1) // sharing))
        warm_up()

    def ping(self) -> str:
        """Answered at once, whatever else is being computed: empty, or why no task can be done."""
        try:
            self._load()
        except StorageError as error:
            return str(error)
        return ""

    def do(self, task: Callable[..., Any], view: View, *args: Any) -> tuple[Any] | str | None:
        """The answer of a task, or None: then say again what is removed; or why there is none."""
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
        return (task(Part(rows, self._share.first, removed), *args),)

    def _load(self) -> Rows:
        if self._rows is None:
            self._rows = self._share.load()
        return self._rows


def use_threads(count: int) -> None:
    """Let BLAS, and with it the scan, use so many threads; Ray starts its workers with one."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=count, user_api="blas")


def warm_up() -> None:
    """Load the scan's machine code: seconds, better spent before a ping is answered than after."""
    rows = np.ones((2, 2), np.float32)
    coded = Rows(rows, Codes.of(rows))
    for few, epsilon in (1, None), (1, 0.5), (2, 0.5):
        scan_rows(coded, NO_IDS, rows[:few], [Band(1)], exclude=[NO_IDS] * few, epsilon=epsilon)
