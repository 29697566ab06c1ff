"""The pool of arms on a Ray cluster: the same answers from shards on many machines."""

import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

import numpy as np
import ray
from numpy.typing import ArrayLike

from nextquery import folders
from nextquery.arms import gpu
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.origin import Origin
from nextquery.arms.pool import KIND, VERSION, ArmPool
from nextquery.arms.rows import Rows
from nextquery.arms.scan import Sums
from nextquery.arms.search import Band, Found
from nextquery.cluster import tasks
from nextquery.cluster.connection import connect
from nextquery.cluster.layout import Layout, Plan, scratch_folder
from nextquery.cluster.merge import Hidden, band_for, merged
from nextquery.cluster.shard import Part
from nextquery.cluster.shards import Call, Shards, Whereabouts
from nextquery.encode.base import Encoder
from nextquery.errors import InvalidInput

_TOGETHER = 1024  # anchors in one request
_ANSWER = 1 << 20  # arms in one answer of a shard: about 12 MB
_LARGE = 1 << 16  # bytes from which anchors are put where all shards find them


class RayArmPool(ArmPool):
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
        Single arms of a shard that is away are refused in any case.
    path : (`from_vectors`) where to write the pool, a folder that all nodes reach. Without it, a
        temporary one, as long as the cluster is this machine alone.
    """

    _shards: Shards
    _token: int
    _on_missing: str

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
        whole = folders.Folder(folder.path.resolve(), folder.meta, folder.files)
        pool = super().of(whole)
        shards = Shards(
            whole,
            pool._rows.stored,
            plan.bounds,
            deadline=plan.deadline,
            threads=plan.threads,
            scratch=scratch,
        )
        pool._enter(shards, plan.on_missing)
        return pool

    def _enter(self, shards: Shards, on_missing: str) -> None:
        self._shards, self._on_missing = shards, on_missing
        self._token = shards.enter()
        self._left = weakref.finalize(self, shards.leave, self._token)
        self._left.atexit = False

    def copy(self) -> Self:
        """A pool that starts as this one is, on the same shards, and then goes its own way."""
        self._check_open()
        twin = super().copy()
        twin._enter(self._shards, self._on_missing)
        return twin

    def close(self) -> None:
        """Leave the shards; they end with the last of the copies that use them."""
        if self._left.alive:
            self._left()
            self._shards.stop_if_unused()

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
        return f"<RayArmPool of {len(self)} arms, dim {self.dim}, in {shards} shards>"

    @property
    def rows_in_all(self) -> int:
        """How many ids were ever given, removed ones included."""
        self._check_open()
        return super().rows_in_all

    def whereabouts(self) -> list[Whereabouts]:
        """For every shard that holds arms: which ones, on what node, in what process."""
        self._check_open()
        return self._shards.whereabouts()

    def rows(self, ids: Iterable[int]) -> Vectors:
        """The vectors of a few arms, in the order of `ids`."""
        wanted = self._ids(ids, "ids", keep_order=True)
        out = np.empty((len(wanted), self.dim), np.float32)
        self._by_id(wanted, tasks.rows, out)
        return out

    def rows_of(self, sets: Sequence[Ids]) -> list[Vectors]:
        """The vectors of several sets of arms, asked for together."""
        if not sets:
            return []
        return np.split(self.rows(np.concatenate(sets)), np.cumsum([len(s) for s in sets])[:-1])

    def score(self, ids: Iterable[int], vector: ArrayLike) -> Floats:
        """The exact similarities of a few arms with one anchor."""
        wanted = self._ids(ids, "ids", keep_order=True)
        anchor = self.anchors(np.asarray(vector)[None])[0]
        out = np.empty(len(wanted))
        self._by_id(wanted, tasks.score, out, anchor)
        return out

    def products(self, anchor: Vectors) -> Vectors:
        """Float32 products of every row with one anchor: n numbers come over the network."""
        answers = self.on_every_shard(tasks.products, anchor)
        return np.concatenate([*answers, self._added() @ anchor])

    def scan(
        self,
        anchors: Vectors,
        bands: Sequence[Band],
        *,
        exclude: Sequence[Any] = (),
        epsilon: float | None = None,
    ) -> tuple[list[list[Found]], Sums | None]:
        """The pass behind `nearest` and every selection, on all shards at once."""
        hidden = self.excluded(exclude, len(anchors))
        most = sum(band.k for band in bands if band.k is not None)
        step = max(1, min(_TOGETHER, _ANSWER // max(1, most)))
        found: list[list[Found]] = []
        sums = Sums(np.zeros(len(anchors)), np.zeros(len(anchors)))
        for start in range(0, len(anchors), step):
            part = slice(start, min(start + step, len(anchors)))
            now = [band_for(band, part) for band in bands]
            rows, totals, missing = self._scan(anchors[part], now, hidden[part], epsilon)
            found += rows
            if totals is not None:
                sums.total[part], sums.similar[part] = totals
            sums = sums._replace(missing=max(sums.missing, missing))
        return found, None if epsilon is None else sums

    def on_every_shard(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        """A function of a `cluster.shard.Part`, run where the rows are: its answers in order.

        The function must be importable on every node; arms added since are not in any part.
        """
        self._check_open()
        calls = {i: self._call(i, task, args) for i in self._shards.actors}
        answers, missing = self._shards.gather(self._shards.send(calls))
        if missing:
            raise self._shards.refusal(missing)
        return [answers[i] for i in sorted(answers)]

    def _scan(
        self, anchors: Vectors, bands: list[Band], exclude: list[Ids], epsilon: float | None
    ) -> tuple[list[list[Found]], Floats | None, int]:
        """One request: what every band finds, the sums, and how many arms are missing."""
        shards, stored = self._shards, len(self._rows.stored)
        bounds = np.append(shards.bounds, self.rows_in_all)
        hidden = Hidden.of(exclude, bounds)
        sent_anchors = ray.put(anchors) if anchors.nbytes >= _LARGE else anchors
        calls = {
            i: self._call(i, tasks.scan, (sent_anchors, bands, hidden[i], epsilon))
            for i in shards.actors
        }
        sent = shards.send(calls)
        gone = self._removed[np.searchsorted(self._removed, stored) :] - stored
        mine = Part(Rows(self._added()), stored, gone)
        here = tasks.scan(mine, anchors, bands, hidden[-1], epsilon)  # while the shards work
        answers, away = shards.gather(sent)
        missing = self._missing(away)
        parts = [*((int(bounds[i]), answers[i]) for i in sorted(answers)), (stored, here)]
        per_band = [
            merged([(first, flat[place]) for first, (flat, _) in parts], band.k, missing)
            for place, band in enumerate(bands)
        ]
        found = [list(row) for row in zip(*per_band, strict=True)] or [[] for _ in anchors]
        totals = None if epsilon is None else sum(sums for _, (_, sums) in parts)
        return found, totals, missing

    def _missing(self, away: Sequence[int]) -> int:
        """How many arms are out of reach; raises where that is not wanted."""
        if away and self._on_missing == "refuse":
            raise self._shards.refusal(away)
        ends = self._shards.bounds
        return sum(int(ends[i + 1] - ends[i]) - len(self._removed_in(i)) for i in away)

    def _call(self, shard: int, task: Callable[..., Any], args: tuple[Any, ...]) -> Call:
        return Call(task, args, self._token, self._removed_in(shard))

    def _removed_in(self, shard: int) -> Ids:
        low, high = np.searchsorted(self._removed, self._shards.bounds[shard : shard + 2])
        return self._removed[low:high]

    def _added(self) -> Vectors:
        return self._rows.segments()[1]

    def _by_id(self, ids: Ids, task: Callable[..., Any], out: Any, *args: Any) -> None:
        """Fill `out` with a task's answers for a few arms, each from the shard that has it."""
        bounds = self._shards.bounds
        of = np.searchsorted(bounds, ids, side="right") - 1
        places = {int(i): np.flatnonzero(of == i) for i in np.unique(of)}
        here = places.pop(len(bounds) - 1, None)
        calls = {i: Call(task, (ids[mine] - bounds[i], *args)) for i, mine in places.items()}
        sent = self._shards.send(calls)
        if here is not None:
            mine = Part(Rows(self._added()), int(bounds[-1]), ids[:0])
            out[here] = task(mine, ids[here] - bounds[-1], *args)
        answers, away = self._shards.gather(sent)
        if away:
            raise self._shards.refusal(away)
        for i, answer in answers.items():
            out[places[i]] = answer

    def _on_gpu(self, device: str, anchors: int) -> bool:
        if gpu.wanted(device, 0, 0):
            raise InvalidInput(
                f"shards search on their processors; received device={device!r}. Use 'cpu'."
            )
        return False

    def _check_open(self) -> None:
        if not self._left.alive:
            raise InvalidInput("this RayArmPool is closed. Open it again with RayArmPool.open.")
