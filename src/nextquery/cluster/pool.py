"""A pool of arms on a Ray cluster: the same answers, from shards on many machines."""

import os
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, Unpack

from numpy.typing import ArrayLike

from nextquery import folders
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, VERSION, ArmPool
from nextquery.cluster.connection import connect
from nextquery.cluster.layout import Layout, Plan, scratch_folder
from nextquery.cluster.sharded import ShardedPool
from nextquery.cluster.shards import Shards
from nextquery.encode.encoder import Encoder
from nextquery.errors import InvalidInput


class RayArmPool(ShardedPool):
    """An `ArmPool` whose vectors are searched by Ray actors, each with one shard of the rows.

    Every shard finds the k best of its rows with the same scores, and the best of those are the
    answer: ids, similarities and order are those of a single pool. Use it wherever you use an
    `ArmPool`: selectors, `Recommender`, the service. Texts stay mapped in the calling process.
    Added arms stay there too, until you `save` and `open` the pool again.

    Parameters (of `from_vectors` and `open`)
    ----------
    address : ``host:port`` of a cluster's head node, ``auto`` or None; see `cluster.connect`.
    shards : number of shards, at least 1; by default one per machine, which uses all its cores.
    bounds : where shards start and end instead, rising from 0 to the number of arms.
    threads : threads per shard; by default an equal part of its machine's cores.
    deadline : seconds (above 0) to wait for a failed shard before treating it as unavailable.
    on_missing : ``refuse`` raises `errors.ClusterUnavailable` if a shard is unavailable.
        ``partial`` answers from the others and counts the arms not searched in `missing`. Single
        arms (`rows`, `score`) of an unavailable shard are read from the files, in this process.
    path : (`from_vectors`) where to write the pool, a folder that all nodes can read. By default a
        temporary folder, which works only if this machine is the whole cluster.
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
        """Open a pool saved by `ArmPool` or by this class: the files are the same."""
        return cls.of(folders.read(path, kind=KIND, version=VERSION), **layout)

    @classmethod
    def of(cls, folder: folders.Folder, **layout: Unpack[Layout]) -> Self:
        """Open the pool in an opened folder, which may have other content."""
        connect(layout.get("address"))
        rows = folder.array("vectors.npy")
        return cls._on_cluster(folder, Plan.of(len(rows), layout))

    @classmethod
    def _on_cluster(cls, folder: folders.Folder, plan: Plan, scratch: Path | None = None) -> Self:
        # Not resolved: links may point elsewhere on other nodes.
        located = folders.Folder(folder.path.absolute(), folder.meta, folder.files)
        pool = super().of(located)
        shards = Shards(
            located,
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
        """Return an independent copy of this pool, on the same shards."""
        shards = self._shards
        twin = super().copy()
        twin._enter(shards, self._on_missing)
        return twin

    def greedi(self, vector: ArrayLike, k: int, **options: Any) -> list[int]:
        """Choose arms for one anchor by Algorithm 3; the options are those of `cluster.greedi`."""
        from nextquery.cluster.greedi import greedi  # it imports this module

        return greedi(self, vector, k, **options)

    def close(self) -> None:
        """Release the shards; they stop when the last copy that uses them is closed."""
        if self._left.alive:
            self._left()
            self._resident.stop_if_unused()

    def __reduce__(self) -> NoReturn:
        raise InvalidInput(
            "a RayArmPool cannot be pickled: it stays in the process that opened it. Send the "
            "folder's path to the other process, and call RayArmPool.open there."
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
        count = f"{shards} shard{'s' * (shards != 1)}"
        return f"<RayArmPool of {len(self)} arms, dim {self.dim}, in {count}>"
