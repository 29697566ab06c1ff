"""Asking shards: every search and every look at single arms, as `ArmPool` has them."""

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import ArrayLike

from nextquery.arms import gpu
from nextquery.arms.ids import NO_IDS
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.pool import ArmPool
from nextquery.arms.rows import Part, Rows
from nextquery.arms.scan import Sums
from nextquery.arms.search import Band, Found
from nextquery.cluster import questions
from nextquery.cluster.calls import Call, Sent
from nextquery.cluster.merge import Hidden, merged
from nextquery.cluster.shards import Shards, Whereabouts
from nextquery.errors import InvalidInput

_TOGETHER = 1024  # anchors in one request
_ANSWER = 1 << 20  # arms in one answer of a shard: about 12 MB
_ROWS = 1 << 16  # vectors in one answer
_FEW = 8  # rows that are read from the files sooner than a shard is asked
_LARGE = 1 << 16  # bytes from which anchors are put where all shards find them


class ShardedPool(ArmPool):
    """An `ArmPool` that asks shards for all that needs vectors; added arms it searches itself."""

    _resident: Shards
    _left: "weakref.finalize[..., Any]"  # alive until this pool is closed
    _token: int
    _on_missing: str

    @property
    def _shards(self) -> Shards:
        self._refuse_closed()
        self._resident.check()
        return self._resident

    def _refuse_closed(self) -> None:
        if not self._left.alive:
            raise InvalidInput("this RayArmPool is closed. Open it again with RayArmPool.open.")

    @property
    def rows_in_all(self) -> int:
        """How many ids were ever given, removed ones included."""
        self._refuse_closed()  # and no more: what was added here can be saved without a cluster
        return len(self._rows)

    def whereabouts(self) -> list[Whereabouts]:
        """For every shard that holds arms: which ones, on what node, in what process."""
        return self._shards.whereabouts()

    def answering(self) -> list[bool]:
        """Whether each shard responds now."""
        return self._shards.answering()

    def rows(self, ids: Iterable[int]) -> Vectors:
        """The vectors of a few arms, in the order of `ids`."""
        wanted = self._ids(ids, "ids", keep_order=True)
        out = np.empty((len(wanted), self.dim), np.float32)
        for start in range(0, len(wanted), _ROWS):
            part = slice(start, start + _ROWS)
            self._by_id(wanted[part], questions.rows, out[part])
        return out

    def rows_of(self, sets: Sequence[Ids]) -> list[Vectors]:
        """The vectors of several sets of arms, asked for together."""
        if not sets:
            return []
        together = np.concatenate([ids if len(ids) else NO_IDS for ids in sets])
        return np.split(self.rows(together), np.cumsum([len(s) for s in sets])[:-1])

    def score(self, ids: Iterable[int], vector: ArrayLike) -> Floats:
        """The exact similarities of a few arms with one anchor."""
        wanted = self._ids(ids, "ids", keep_order=True)
        anchor = self.anchors(np.asarray(vector)[None])[0]
        out = np.empty(len(wanted))
        self._by_id(wanted, questions.score, out, anchor)
        return out

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
        ends = [band.bounds(len(anchors)) for band in bands]
        most = sum(band.k for band in bands if band.k is not None)
        step = max(1, min(_TOGETHER, _ANSWER // max(1, most)))
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
        """A task's answers for every `Part` of the rows, where they are; how many are missing.

        The task must be importable on every node. Arms added since are one more part, here.
        """
        removed = self._removed  # once: another thread may remove more meanwhile
        sent = self._send(task, args, removed)
        here = task(self._mine(removed), *args)  # while the shards work
        answers, away = self._shards.gather(sent)
        missing = self._missing(away, removed)
        return [*(answers[i] for i in sorted(answers)), here], missing

    def on_every_shard(self, task: Callable[..., Any], *args: Any) -> list[Any]:
        """As `on_parts`, of the shards alone; raises where one of them stays away."""
        removed = self._removed  # once: another thread may remove more meanwhile
        answers, away = self._shards.gather(self._send(task, args, removed))
        if away:
            raise self._shards.refusal(away)
        return [answers[i] for i in sorted(answers)]

    def _scan(
        self, anchors: Vectors, bands: list[Band], exclude: list[Ids], epsilon: float | None
    ) -> tuple[list[list[Found]], Floats | None, int]:
        """One request: what every band finds, the sums, and how many arms are missing."""
        shards, stored = self._shards, len(self._rows.stored)
        removed = self._removed  # once: another thread may remove more meanwhile
        bounds = np.append(shards.bounds, self.rows_in_all)
        hidden = Hidden.of(exclude, bounds)
        sent_anchors = ray.put(anchors) if anchors.nbytes >= _LARGE else anchors
        calls = {
            i: self._call(i, questions.scan, (sent_anchors, bands, hidden[i], epsilon), removed)
            for i in shards.actors
        }
        sent = shards.send(calls)
        mine = self._mine(removed)
        here = questions.scan(mine, anchors, bands, hidden[-1], epsilon)  # while the shards work
        answers, away = shards.gather(sent)
        missing = self._missing(away, removed)
        parts = [*((int(bounds[i]), answers[i]) for i in sorted(answers)), (stored, here)]
        per_band = [
            merged([(first, flat[place]) for first, (flat, _) in parts], band.k, missing)
            for place, band in enumerate(bands)
        ]
        found = [list(row) for row in zip(*per_band, strict=True)] or [[] for _ in anchors]
        totals = None if epsilon is None else sum(sums for _, (_, sums) in parts)
        return found, totals, missing

    def _missing(self, away: Sequence[int], removed: Ids) -> int:
        """How many arms are out of reach; raises where that is not wanted."""
        if away and self._on_missing == "refuse":
            raise self._shards.refusal(away)
        ends = self._shards.bounds
        return sum(int(ends[i + 1] - ends[i]) - len(self._those_in(i, removed)) for i in away)

    def _send(self, task: Callable[..., Any], args: tuple[Any, ...], removed: Ids) -> Sent:
        actors = self._shards.actors
        return self._shards.send({i: self._call(i, task, args, removed) for i in actors})

    def _mine(self, removed: Ids) -> Part:
        """The added arms, which no shard holds."""
        first = len(self._rows.stored)
        return Part(Rows(self._added()), first, removed[np.searchsorted(removed, first) :] - first)

    def _call(
        self, shard: int, task: Callable[..., Any], args: tuple[Any, ...], removed: Ids
    ) -> Call:
        return Call(task, args, self._token, self._those_in(shard, removed))

    def _those_in(self, shard: int, removed: Ids) -> Ids:
        low, high = np.searchsorted(removed, self._shards.bounds[shard : shard + 2])
        return removed[low:high]

    def _added(self) -> Vectors:
        return self._rows.segments()[1]

    def _by_id(self, ids: Ids, task: Callable[..., Any], out: Any, *args: Any) -> None:
        """Fill `out` with a task's answers for a few arms, each from the shard that has it."""
        bounds = self._shards.bounds
        if len(ids) <= _FEW:
            out[:] = self._from_files(ids, task, *args)
            return
        of = np.searchsorted(bounds, ids, side="right") - 1
        places = {int(i): np.flatnonzero(of == i) for i in np.unique(of)}
        here = places.pop(len(bounds) - 1, None)
        calls = {i: Call(task, (ids[mine] - bounds[i], *args)) for i, mine in places.items()}
        sent = self._shards.send(calls)
        if here is not None:
            mine = Part(Rows(self._added()), int(bounds[-1]), ids[:0])
            out[here] = task(mine, ids[here] - bounds[-1], *args)
        answers, away = self._shards.gather(sent)
        for i in away:
            out[places[i]] = self._from_files(ids[places[i]], task, *args)
        for i, answer in answers.items():
            out[places[i]] = answer

    def _from_files(self, ids: Ids, task: Callable[..., Any], *args: Any) -> Any:
        """What shards would answer, read here: we opened the same files."""
        return task(Part(self._rows, 0, ids[:0]), ids, *args)

    def _on_gpu(self, device: str, anchors: int) -> bool:
        if gpu.wanted(device, 0, 0):
            raise InvalidInput(
                f"shards search on their processors; received device={device!r}. Use 'cpu'."
            )
        return False
