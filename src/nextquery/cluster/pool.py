"""The pool of arms on a Ray cluster: the same answers from shards on many machines."""

import os
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, Unpack

from numpy.typing import ArrayLike

from nextquery import folders
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, VERSION, ArmPool
from nextquery.cluster.connection import connect
from nextquery.cluster.layout import Layout, Plan, scratch_folder
from nextquery.cluster.sharded import ShardedPool
from nextquery.cluster.shards import Shards
from nextquery.encode.base import Encoder
from nextquery.errors import InvalidInput


class RayArmPool(ShardedPool):
    """An `ArmPool` whose vectors are searched by actors of a Ray cluster, each in its own part.

    Every shard finds the k best of its rows by the same definition of a score, and the best of
    those are the answer: ids, similarities and order are those of one pool. It works wherever an
    `ArmPool` does: selectors, `Recommender`, the service. Texts stay with the caller, mapped; so do
    added arms, which become part of the shards by `save` and `open`.

    Parameters (of `from_vectors` and `open`)
    ----------
    address : ``host:port`` of a cluster's head node, ``auto``, or None: see `cluster.connect`.
    shards : how many, at least 1; by default one for each machine, where it uses all cores.
    bounds : where shards begin and end instead, rising from 0 to the number of arms.
    threads : threads of each shard; by default its part of its machine's cores.
    deadline : seconds (above 0) for a shard that fell to be back.
    on_missing : ``refuse`` (`errors.ClusterUnavailable` when a shard stays away), or ``partial``:
        answers come from the others and say in `missing` how many arms could not be searched.
        Single arms (`rows`, `score`) of a shard that is away are read from the files, here.
    path : (`from_vectors`) where to write the pool, a folder that all nodes reach. Without it, a
        temporary one, as long as the cluster is this machine alone.
    """

    @classmethod
    def from_vectors(
        cls,
        texts: Sequence[str],
        vectors: ArrayLike,
        *,
        origin: Origin | None = None,
        encoder: Encoder | None = None,
        path: str | os.PathLike[str] | None = None,
        **layout: Unpack[Layout],
    ) -> Self:
        """Write a pool to `path` and open it on the cluster."""
        pool = ArmPool.from_vectors(texts, vectors, origin=origin, encoder=encoder)
        connect(layout.get("address"))
        plan = Plan.of(len(pool), layout)
        if path is not None:
            pool.save(path)
            return cls._on_cluster(folders.read(path, kind=KIND, version=VERSION), plan)
        scratch = scratch_folder()
        try:
            pool.save(scratch)
            folder = folders.read(scratch, kind=KIND, version=VERSION)
            return cls._on_cluster(folder, plan, scratch)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], **layout: Unpack[Layout]) -> Self:
        """Open a saved pool, one of `ArmPool` or of this class: the files are the same."""
        return cls.of(folders.read(path, kind=KIND, version=VERSION), **layout)

    @classmethod
    def of(cls, folder: folders.Folder, **layout: Unpack[Layout]) -> Self:
        """The pool in an opened folder, whatever else that holds."""
        connect(layout.get("address"))
        rows = folder.array("vectors.npy")
        return cls._on_cluster(folder, Plan.of(len(rows), layout))

    @classmethod
    def _on_cluster(cls, folder: folders.Folder, plan: Plan, scratch: Path | None = None) -> Self:
        # Not resolved: links may lie elsewhere on other nodes.
        whole = folders.Folder(folder.path.absolute(), folder.meta, folder.files)
        pool = super().of(whole)
        shards = Shards(
            whole,
            plan.bounds,
            deadline=plan.deadline,
            threads=plan.threads,
            scratch=scratch,
        )
        pool._enter(shards, plan.on_missing)
        return pool

    def _enter(self, shards: Shards, on_missing: str) -> None:
        self._resident, self._on_missing = shards, on_missing
        self._token = shards.enter()
        self._left = weakref.finalize(self, shards.leave, self._token)
        self._left.atexit = False

    def copy(self) -> Self:
        """A pool that starts as this one is, on the same shards, and then goes its own way."""
        shards = self._shards
        twin = super().copy()
        twin._enter(shards, self._on_missing)
        return twin

    def close(self) -> None:
        """Leave the shards; they end with the last of the copies that use them."""
        if self._left.alive:
            self._left()
            self._resident.stop_if_unused()

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a RayArmPool stays in the process that opened it. Give others the folder's path, and "
            "let them call RayArmPool.open."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._left.alive:
            return "<RayArmPool, closed>"
        shards = len(self._shards.bounds) - 1
        cut = f"{shards} shard{'s' * (shards != 1)}"
        return f"<RayArmPool of {len(self)} arms, dim {self.dim}, in {cut}>"
