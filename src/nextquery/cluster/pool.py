"""A pool of arms on a Ray cluster: the same answers, from shards on many machines.

Searches, and the vectors and scores of single arms, are queries to the shards.
"""

import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self, Unpack

import numpy as np
import ray
from numpy.typing import ArrayLike

from nextquery import folders
from nextquery.arms import gpu
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, NO_IDS, VERSION, ArmPool
from nextquery.arms.scan import Band, Found, RowRange, Rows, Sums
from nextquery.cluster import shards
from nextquery.cluster.connection import connect
from nextquery.cluster.greedi import greedi
from nextquery.cluster.shards import (
    Call,
    ClusterOptions,
    Hidden,
    Sent,
    ShardPlan,
    Shards,
    Whereabouts,
    merged,
    scratch_folder,
)
from nextquery.encode.encoder import Encoder
from nextquery.errors import InvalidInput

_ANCHORS_PER_REQUEST = 1024  # anchors in one request
_ANSWER = 1 << 20  # arms in one answer of a shard: about 12 MB
_ROWS = 1 << 16  # vectors in one answer
_FEW = 8  # up to this many rows, reading the files is faster than asking a shard
_LARGE = 1 << 16  # bytes from which anchors are sent through the object store


class ShardedPool(ArmPool):
    """An `ArmPool` whose shards do all work on vectors; it searches added arms itself."""

    _resident: Shards
    _left: "weakref.finalize[..., Any]"  # alive until this pool is closed
    _token: int
    _on_missing: str

    @property
    def _shards(self) -> Shards:
        self._check_open()
        self._resident.check()
        return self._resident

    def _check_open(self) -> None:
        if not self._left.alive:
            raise InvalidInput("this RayArmPool is closed. Open it again with RayArmPool.open.")

    @property
    def rows_in_all(self) -> int:
        """Number of ids ever assigned, including removed ones."""
        self._check_open()  # not the cluster: added arms can be saved without one
        return len(self._rows)

    def whereabouts(self) -> list[Whereabouts]:
        """Return, for every shard with arms, its range, node and process."""
        return self._shards.whereabouts()

    def answering(self) -> list[bool]:
        """Return whether each shard responds now."""
        return self._shards.answering()

    def rows(self, ids: Iterable[int]) -> Vectors:
        """Return the vectors of a few arms, in the order of `ids`."""
        checked = self._ids(ids, "ids", keep_order=True)
        out = np.empty((len(checked), self.dim), np.float32)
        for start in range(0, len(checked), _ROWS):
            part = slice(start, start + _ROWS)
            self._by_id(checked[part], shards.rows, out[part])
        return out

    def rows_of(self, sets: Sequence[Ids]) -> list[Vectors]:
        """Return the vectors of several sets of arms, in one request."""
        if not sets:
            return []
        all_ids = np.concatenate([ids if len(ids) else NO_IDS for ids in sets])
        return np.split(self.rows(all_ids), np.cumsum([len(s) for s in sets])[:-1])

    def score(self, ids: Iterable[int], vector: ArrayLike) -> Floats:
        """Return the exact similarities of a few arms to one anchor."""
        checked = self._ids(ids, "ids", keep_order=True)
        anchor = self.anchors(np.asarray(vector)[None])[0]
        out = np.empty(len(checked))
        self._by_id(checked, shards.score, out, anchor)
        return out

    def scan(
        self,
        anchors: Vectors,
        bands: Sequence[Band],
        *,
        exclude: Sequence[Any] = (),
        epsilon: float | None = None,
    ) -> tuple[list[list[Found]], Sums | None]:
        """Scan all shards at once; `nearest` and every selection use this."""
        hidden = self.excluded(exclude, len(anchors))
        ends = [band.bounds(len(anchors)) for band in bands]
        most = sum(band.k for band in bands if band.k is not None)
        step = max(1, min(_ANCHORS_PER_REQUEST, _ANSWER // max(1, most)))
        found: list[list[Found]] = []
        sums = Sums(np.zeros(len(anchors)), np.zeros(len(anchors)))
        for start in range(0, len(anchors), step):
            part = slice(start, min(start + step, len(anchors)))
            now = [
                Band(band.k, low[part], high[part])
                for band, (low, high) in zip(bands, ends, strict=True)
            ]
            rows, totals, missing = self._scan(anchors[part], now, hidden[part], epsilon)
            found += rows
            if totals is not None:
                sums.total[part], sums.similar[part] = totals
            sums = sums._replace(missing=max(sums.missing, missing))
        return found, None if epsilon is None else sums

    def on_parts(self, task: Callable[..., Any], *args: Any) -> tuple[list[Any], int]:
        """Run a task on every `Part` of the rows; return its answers and the count of missing arms.

        The task must be importable on every node. Arms added since are one more part, run here.
        """
        removed = self._removed  # read once: another thread may remove more meanwhile
        sent = self._send(task, args, removed)
        here = task(self._added_part(removed), *args)  # while the shards work
        answers, unavailable = self._shards.gather(sent)
        missing = self._missing(unavailable, removed)
        return [*(answers[i] for i in sorted(answers)), here], missing

    def on_every_shard(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        """Like `on_parts`, but only for shards; raises an error if one is unavailable."""
        removed = self._removed  # read once: another thread may remove more meanwhile
        answers, unavailable = self._shards.gather(self._send(task, args, removed))
        if unavailable:
            raise self._shards.error(unavailable)
        return [answers[i] for i in sorted(answers)]

    def _scan(
        self, anchors: Vectors, bands: list[Band], exclude: list[Ids], epsilon: float | None
    ) -> tuple[list[list[Found]], Floats | None, int]:
        """Send one request; return each band's results, the sums, and how many arms are missing."""
        stored = len(self._rows.stored)
        removed = self._removed  # read once: another thread may remove more meanwhile
        bounds = np.append(self._shards.bounds, self.rows_in_all)
        hidden = Hidden.of(exclude, bounds)
        sent_anchors = ray.put(anchors) if anchors.nbytes >= _LARGE else anchors
        calls = {
            i: self._call(i, shards.scan, (sent_anchors, bands, hidden[i], epsilon), removed)
            for i in self._shards.actors
        }
        sent = self._shards.send(calls)
        added = self._added_part(removed)
        here = shards.scan(added, anchors, bands, hidden[-1], epsilon)  # while the shards work
        answers, unavailable = self._shards.gather(sent)
        missing = self._missing(unavailable, removed)
        parts = [*((int(bounds[i]), answers[i]) for i in sorted(answers)), (stored, here)]
        per_band = [
            merged([(first, flat[place]) for first, (flat, _) in parts], band.k, missing)
            for place, band in enumerate(bands)
        ]
        found = [list(row) for row in zip(*per_band, strict=True)] or [[] for _ in anchors]
        totals = None if epsilon is None else sum(sums for _, (_, sums) in parts)
        return found, totals, missing

    def _missing(self, unavailable: Sequence[int], removed: Ids) -> int:
        """Count the missing arms; raise an error unless partial answers are allowed."""
        if unavailable and self._on_missing == "refuse":
            raise self._shards.error(unavailable)
        ends = self._shards.bounds
        return sum(
            int(ends[i + 1] - ends[i]) - len(self._removed_in(i, removed)) for i in unavailable
        )

    def _send(self, task: Callable[..., Any], args: tuple[Any, ...], removed: Ids) -> Sent:
        actors = self._shards.actors
        return self._shards.send({i: self._call(i, task, args, removed) for i in actors})

    def _added_part(self, removed: Ids) -> RowRange:
        """The added arms, which are in no shard."""
        first = len(self._rows.stored)
        return RowRange(
            Rows(self._added()), first, removed[np.searchsorted(removed, first) :] - first
        )

    def _call(
        self, shard: int, task: Callable[..., Any], args: tuple[Any, ...], removed: Ids
    ) -> Call:
        return Call(task, args, self._token, self._removed_in(shard, removed))

    def _removed_in(self, shard: int, removed: Ids) -> Ids:
        low, high = np.searchsorted(removed, self._shards.bounds[shard : shard + 2])
        return removed[low:high]

    def _added(self) -> Vectors:
        return self._rows.segments()[1]

    def _by_id(self, ids: Ids, task: Callable[..., Any], out: Any, *args: Any) -> None:
        """Fill `out` with a task's answers for a few arms, each from its shard."""
        bounds = self._shards.bounds
        if len(ids) <= _FEW:
            out[:] = self._from_files(ids, task, *args)
            return
        of = np.searchsorted(bounds, ids, side="right") - 1
        places = {int(i): np.flatnonzero(of == i) for i in np.unique(of)}
        here = places.pop(len(bounds) - 1, None)
        calls = {i: Call(task, (ids[own] - bounds[i], *args)) for i, own in places.items()}
        sent = self._shards.send(calls)
        if here is not None:
            added = RowRange(Rows(self._added()), int(bounds[-1]), ids[:0])
            out[here] = task(added, ids[here] - bounds[-1], *args)
        answers, unavailable = self._shards.gather(sent)
        for i in unavailable:
            out[places[i]] = self._from_files(ids[places[i]], task, *args)
        for i, answer in answers.items():
            out[places[i]] = answer

    def _from_files(self, ids: Ids, task: Callable[..., Any], *args: Any) -> Any:
        """Compute what shards would answer from the files, which are open here too."""
        return task(RowRange(self._rows, 0, ids[:0]), ids, *args)

    def _on_gpu(self, device: str, anchors: int) -> bool:
        if gpu.use_gpu(device, 0, 0):
            raise InvalidInput(f"shards search on the CPU; received device={device!r}. Use 'cpu'.")
        return False


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
        **layout: Unpack[ClusterOptions],
    ) -> Self:
        """Write a pool to `path` and open it on the cluster."""
        pool = ArmPool.from_vectors(texts, vectors, origin=origin, encoder=encoder)
        connect(layout.get("address"))
        plan = ShardPlan.of(len(pool), layout)
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
    def open(cls, path: str | os.PathLike[str], **layout: Unpack[ClusterOptions]) -> Self:
        """Open a pool saved by `ArmPool` or by this class: the files are the same."""
        return cls.of(folders.read(path, kind=KIND, version=VERSION), **layout)

    @classmethod
    def of(cls, folder: folders.Folder, **layout: Unpack[ClusterOptions]) -> Self:
        """Open the pool in an opened folder, which may have other content."""
        connect(layout.get("address"))
        rows = folder.array("vectors.npy")
        return cls._on_cluster(folder, ShardPlan.of(len(rows), layout))

    @classmethod
    def _on_cluster(
        cls, folder: folders.Folder, plan: ShardPlan, scratch: Path | None = None
    ) -> Self:
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
