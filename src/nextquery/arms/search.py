"""The search for one chunk of anchors: propose few arms, then score them exactly."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.arms import kernels
from nextquery.arms.blocks import Blocks
from nextquery.arms.codes import Codes
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.checks import whole_number
from nextquery.errors import InvalidInput
from nextquery.vectors import compiled

if TYPE_CHECKING:
    from nextquery.arms.tiles import Tiles  # imports Numba

_MANY = 6  # proposals for each of the k, from which on their exact scores are computed at once
_ALL = 2**62  # as a number of arms: more than there are
_ALONE = 8192  # up to this many proposals, a second thread is not worthwhile


class Band(NamedTuple):
    """Keep the `k` best arms whose similarity is in [low, high); `k=None` keeps all of them."""

    k: int | None
    low: ArrayLike = -np.inf
    high: ArrayLike = np.inf

    @classmethod
    def asked(cls, k: int, at_least: ArrayLike | None, below: ArrayLike | None) -> "Band":
        """Return the band for the arguments of a caller, checked."""
        band = cls(
            whole_number(k, "k", at_least=1),
            -np.inf if at_least is None else at_least,
            np.inf if below is None else below,
        )
        if np.isnan(np.asarray(band.low, float)).any() or np.isnan(np.asarray(band.high)).any():
            raise InvalidInput("at_least and below must not be NaN; received NaN.")
        return band

    def bounds(self, anchors: int) -> tuple[Floats, Floats]:
        """Return both bounds for every anchor, from one for all of them or one for each."""
        low, high = (np.asarray(end, np.float64) for end in (self.low, self.high))
        for given in (low, high):
            if given.shape not in ((), (1,), (anchors,)):
                raise InvalidInput(
                    "at_least and below must be one number, or one for each anchor; received "
                    f"{given.size} numbers for {anchors} anchors."
                )
        return np.broadcast_to(low, anchors), np.broadcast_to(high, anchors)


class Found(NamedTuple):
    """Arms in order (−similarity, id), with their similarities.

    `missing` is the number of arms that could not be searched, always 0 except on a cluster.
    """

    ids: Ids
    similarities: Floats
    missing: int = 0


class Nearest(tuple[Any, Any]):
    """Ids and similarities; `missing` is the number of arms that could not be searched."""

    missing: int = 0

    @classmethod
    def of(cls, found: Sequence[Found], k: int, *, one: bool) -> "Nearest":
        """Return the result for one anchor, or for a matrix of them."""
        arrays = (found[0].ids, found[0].similarities) if one else _as_arrays(found, k)
        nearest = cls(arrays)
        nearest.missing = max((row.missing for row in found), default=0)
        return nearest


def error_bound(d: int) -> float:
    """Return how far a float32 product of two unit rows can be from the score, for any sum order.

    |f − s| ≤ γ·Σ|xᵢyᵢ| ≤ γ with γ = d·u / (1 − d·u), u = 2⁻²⁴ (Higham 2002, section 3.1). Two more
    units cover rows whose length is 1 only to float32, and two a bound rounded to float32.
    """
    unit = 2.0**-24
    return (d + 4) * unit / (1 - (d + 4) * unit)


class Chunk(Protocol):
    """Anchors that are searched together, in blocks of `width` arms."""

    blocks: Blocks
    anchors: Vectors
    width: int


class Search:
    """The proposals of one band for a chunk of anchors; a rising floor keeps them few.

    An arm whose score cannot reach `floor`, or is outside the band, is not proposed.
    """

    def __init__(self, k: int | None, low: Floats, high: Floats, chunk: Chunk) -> None:
        self.k, self.low, self.high, self.chunk = k, low, high, chunk
        self.floor = low.copy()
        self.limit = 0 if k is None else 4 * k * len(low)
        self.full = self.limit  # proposals from which on to raise the floor
        self.proposals = _Proposals.empty(self.limit + 2 * chunk.width)
        self.used, self.seen = 0, 0

    @classmethod
    def of(cls, band: Band, part: slice, of: int, chunk: Chunk) -> "Search":
        """Return the search for a band, whose bounds are one for all anchors or one for each."""
        low, high = (np.array(end[part]) for end in band.bounds(of))  # one array type for kernels
        return cls(None if band.k is None else min(band.k, chunk.blocks.count), low, high, chunk)

    def for_thread(self) -> "Search":
        """Return a new copy of this search for one thread."""
        return Search(self.k, self.low, self.high, self.chunk)

    def propose(self, products: Vectors, first: int, slack: float) -> None:
        """Propose the arms of one block that may be among the k best of the band.

        The first arms come in spans that double, so the floor rises before most arms are tested.
        """
        start, width = 0, products.shape[1]
        while start < width:
            span = width if self.k is None else max(2 * self.k, self.seen)
            stop = min(start + span, width)
            self._propose(products, first, slack, (start, stop))
            self.seen += stop - start
            start = stop

    def _propose(
        self, products: Vectors, first: int, slack: float, columns: tuple[int, int]
    ) -> None:
        row, most = 0, (self.high + slack).astype(np.float32)
        while row < len(products):
            least = np.maximum((self.floor - slack).astype(np.float32), kernels.LOWEST)
            row, self.used = compiled(kernels.propose, any_order=True)(
                products, least, most, first, slack, columns, row, *self.proposals, self.used
            )
            if row < len(products):
                self._make_room(columns[1] - columns[0])
        if self.used > self.full:
            self._tighten()

    def propose_coded(self, tiles: "Tiles", codes: Codes, part: slice, first: int) -> None:
        """Propose arms of some coded rows; the arm of row 0 is `first`."""
        while part.start < part.stop:
            k, limit = (_ALL, _ALL) if self.k is None else (self.k, self.limit)
            bounds = (self.low, self.high, self.floor)
            state = (k, *bounds, tuple(self.proposals), self.used, limit)
            row, self.used = tiles.propose(codes, part, first, state)
            part = slice(row, part.stop)
            if row < part.stop:
                self._make_room(tiles.room)

    def _make_room(self, width: int) -> None:
        self._tighten()
        many = 0 if self.k is None else _MANY * self.k * len(self.low)
        if self.k is not None and self.used > many and not self.proposals.room(self.used, width):
            self._settle_now()  # more near-ties than the products can distinguish
        if not self.proposals.room(self.used, width):
            self.proposals = self.proposals.grown(2 * self.used + width)

    def _tighten(self) -> None:
        if self.k is not None:
            self.used = compiled(kernels.tighten)(
                *self.proposals, self.used, self.k, self.low, self.high, self.floor
            )
            self.full = max(self.limit, 2 * self.used)

    def _settle(self, threads: int = 1) -> tuple[Ids, Ids, Floats]:
        """Score the proposals by definition and keep the k best per anchor, by (−similarity, id).

        Returns the number of arms of each anchor, then ids and similarities, anchor by anchor.
        """
        row, ids = self.proposals.rows[: self.used], self.proposals.ids[: self.used]
        exact = np.empty(self.used)
        cuts = np.linspace(0, self.used, 1 + (threads if self.used > _ALONE else 1)).astype(int)

        def score(part: slice) -> None:
            exact[part] = self.chunk.blocks.score(ids[part], self.chunk.anchors, row[part])

        together([partial(score, slice(*ends)) for ends in pairwise(cuts.tolist())])
        counts = np.empty(len(self.low), np.int64)
        best = np.empty(self.used, np.int64), np.empty(self.used)
        most = self.used if self.k is None else self.k
        count = compiled(kernels.in_order)(
            row, ids, exact, self.low, self.high, most, counts, *best
        )
        return counts, best[0][:count], best[1][:count]

    def _settle_now(self) -> None:
        """Replace the proposals by the best ones with their exact scores."""
        counts, ids, exact = self._settle()
        self.used = len(ids)
        self.proposals.rows[: self.used] = np.repeat(np.arange(len(counts)), counts)
        self.proposals.ids[: self.used], self.proposals.products[: self.used] = ids, exact
        self.proposals.slacks[: self.used] = 2.0**-23  # a score rounded to float32

    def finish(self, parts: Sequence["Search"], threads: int) -> list[Found]:
        """Combine the proposals of all threads into the result, one `Found` per anchor."""
        self.proposals = _Proposals.joined([s.proposals.first(s.used) for s in parts])
        self.used = len(self.proposals.ids)
        self._tighten()
        counts, ids, exact = self._settle(threads)
        ends = np.cumsum(counts)[:-1]
        return [
            Found(*pair) for pair in zip(np.split(ids, ends), np.split(exact, ends), strict=True)
        ]


class _Proposals(NamedTuple):
    """Arms that may be in the result: arrays with spare room, of which the first are used."""

    rows: NDArray[np.int32]  # the anchor's place in the chunk
    ids: Ids
    products: Vectors
    slacks: Vectors

    @classmethod
    def empty(cls, size: int) -> "_Proposals":
        floats = np.empty(size, np.float32), np.empty(size, np.float32)
        return cls(np.empty(size, np.int32), np.empty(size, np.int64), *floats)

    def room(self, used: int, width: int) -> bool:
        return used + width <= len(self.ids)

    def first(self, used: int) -> "_Proposals":
        return _Proposals(
            self.rows[:used], self.ids[:used], self.products[:used], self.slacks[:used]
        )

    def grown(self, size: int) -> "_Proposals":
        return _Proposals.joined([self, _Proposals.empty(size - len(self.ids))])

    @classmethod
    def joined(cls, parts: Sequence["_Proposals"]) -> "_Proposals":
        return cls(*(np.concatenate([part[i] for part in parts]) for i in range(4)))


def _as_arrays(found: Sequence[Found], k: int) -> tuple[Any, Any]:
    """Return ids and similarities as two matrices, or as two lists if rows differ in length."""
    ids, similarities = [row.ids for row in found], [row.similarities for row in found]
    if not ids:
        return np.empty((0, k), np.int64), np.empty((0, k))
    if len({len(row) for row in ids}) == 1:
        return np.stack(ids), np.stack(similarities)
    return ids, similarities


T = TypeVar("T")


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks in parallel, one of them in this thread."""
    if len(tasks) == 1:
        return [tasks[0]()]
    with ThreadPoolExecutor(len(tasks) - 1) as others:
        waiting = [others.submit(task) for task in tasks[1:]]
        return [tasks[0](), *(task.result() for task in waiting)]
