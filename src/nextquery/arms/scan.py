"""Exact top-k search and sums over the whole pool: propose few arms, then score them exactly.

The scan passes over the vectors once, in blocks that fit a cache; several threads each take the
next block. A product, of float32 rows or of their 8-bit codes, *proposes* arms. It is off by at
most a known slack, so every arm that could be in the result is kept. The few proposed arms are
then scored by `kernels.score`, the definition of a score, and ordered by (−similarity, id). So
block size, batch size, codes and threads cannot change the result. Memory beyond the result is
bounded by `_BUDGET`.

Rows are append-only: stored parts, which may be memory-mapped, and the rows added since. BLAS is
limited to one thread per call, so that many small products run in parallel.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.arms import kernels
from nextquery.arms.coded import FEW, SMALLEST, Codes, coded_anchors
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.checks import whole_number
from nextquery.errors import InvalidInput
from nextquery.vectors import compiled

if TYPE_CHECKING:
    from nextquery.arms.tiles import Tiles


_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@contextmanager
def one_thread_each() -> Iterator[int]:
    """Limit BLAS to one thread per call, and yield the number of threads it would have used.

    You set that number with ``OMP_NUM_THREADS`` or `threadpoolctl`. BLAS has one limit for the
    whole process, so the first thread to enter sets it and the last to leave restores it.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = [blas.num_threads or 1 for blas in _libraries()]
            _limit([1] * len(_before))
        _inside += 1
        threads = max(_before, default=1)
    try:
        yield threads
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit(_before)


def _limit(threads: Sequence[int]) -> None:
    """Set the number of threads of every BLAS library, from any thread.

    `threadpoolctl` lets only the first thread that sets a limit set later ones, and ignores the
    others. Here, the lock decides instead.
    """
    for blas, count in zip(_libraries(), threads, strict=True):
        release_control = getattr(blas, "clear_controlling_thread", lambda **_: None)
        release_control(force=True)
        blas.set_num_threads(count)
        release_control(force=True)


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # inspects the loaded libraries, once

    controllers: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return controllers


class Block(NamedTuple):
    """The arms from `first` up to `last`, all in one segment, at `place` in that segment."""

    first: int
    last: int
    rows: Vectors
    codes: Codes | None
    place: slice


class Blocks:
    """Rows by id in one or more segments; the first ones may have a coded copy."""

    def __init__(
        self, segments: Sequence[Vectors], removed: Ids, codes: Sequence[Codes | None] = ()
    ) -> None:
        coded = zip(segments, [*codes, *[None] * len(segments)], strict=False)
        kept = [(_read_only(segment), code) for segment, code in coded if len(segment)]
        self.segments = [segment for segment, _ in kept]
        self.codes = [code for _, code in kept]
        self.starts = np.cumsum([0, *(len(segment) for segment in self.segments)])
        self.count = int(self.starts[-1])
        self.removed = removed  # sorted

    @property
    def has_codes(self) -> bool:
        """Return whether any rows have a coded copy."""
        return any(codes is not None for codes in self.codes)

    def cut(self, width: int, *, coded: int | None = None) -> Iterator[Block]:
        """Yield all rows in blocks of at most `width`, in the fastest order to read memory.

        `coded` is the width of blocks that have a coded copy, if it is not the same. Blocks without
        a live row are left out.
        """
        for start, segment, codes in zip(self.starts, self.segments, self.codes, strict=False):
            step = width if codes is None or coded is None else coded
            offsets = np.arange(0, len(segment), step)
            ends = np.minimum(offsets + step, len(segment))
            removed = np.searchsorted(self.removed, ends + start)
            removed -= np.searchsorted(self.removed, offsets + start)
            live = removed < ends - offsets
            for offset, end in zip(offsets[live].tolist(), ends[live].tolist(), strict=True):
                place = slice(offset, end)
                first = int(start) + offset
                last = int(start) + place.stop
                yield Block(first, last, segment[place], codes, place)

    def removed_in(self, block: Block) -> Ids:
        """Return the removed rows of one block, counted from its first."""
        low, high = np.searchsorted(self.removed, (block.first, block.last))
        return self.removed[low:high] - block.first

    def rows(self, ids: Ids) -> Vectors:
        """Return the vectors of `ids`, in their order."""
        if len(self.segments) == 1:
            return self.segments[0][ids]
        out = np.empty((len(ids), self.segments[0].shape[1] if self.segments else 0), np.float32)
        which = np.searchsorted(self.starts, ids, side="right") - 1
        for number, segment in enumerate(self.segments):
            places = np.flatnonzero(which == number)
            out[places] = segment[ids[places] - self.starts[number]]
        return out

    def score(self, ids: Ids, anchors: Vectors, row: NDArray[np.integer] | None = None) -> Floats:
        """Return exact similarities of `ids` with one anchor, or with ``anchors[row]`` in pairs."""
        out = np.zeros(len(ids))
        matrix = np.ascontiguousarray(np.atleast_2d(anchors))
        against = np.zeros(len(ids), np.int32) if row is None else row.astype(np.int32, copy=False)
        for start, segment in zip(self.starts, self.segments, strict=False):
            compiled(kernels.score)(segment, ids, start, matrix, against, out)
        return out


def _read_only(segment: Vectors) -> Vectors:
    """Return a read-only view, so that compiled code sees one array type, mapped or not."""
    view = np.asarray(segment).view()
    view.flags.writeable = False
    return view


_PATIENCE = 16  # scans without codes that cost about as much as coding the rows


class Rows:
    """Unit vectors by id. A reader's view stays valid while rows are added.

    >>> rows = Rows(np.eye(2, dtype=np.float32))
    >>> rows.append(np.ones((1, 2), np.float32))
    >>> len(rows), rows.whole().tolist()
    (3, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    """

    def __init__(
        self,
        stored: Vectors,
        codes: Codes | None = None,
        between: Sequence[tuple[Vectors, Codes | None]] = (),
    ) -> None:
        self.stored = stored
        self._between = list(between)  # more rows that are fixed, each with its codes
        self._fixed = len(stored) + sum(len(rows) for rows, _ in self._between)
        self._codes, self._asked, self._lock = codes, 0, threading.Lock()
        self.added = 0  # rows since then
        self.saved: list[tuple[int, str]] = []  # number of first rows, SHA-256 of their file
        self._buffer = np.empty((0, stored.shape[1]), np.float32)  # with room for more

    def __len__(self) -> int:
        return self._fixed + self.added

    @property
    def dim(self) -> int:
        """The length of a row."""
        return int(self.stored.shape[1])

    def append(self, rows: Vectors) -> None:
        """Add rows at the end."""
        needed = self.added + len(rows)
        if needed > len(self._buffer):
            grown = np.empty((max(needed, 2 * len(self._buffer), 64), self.dim), np.float32)
            grown[: self.added] = self._buffer[: self.added]
            self._buffer = grown
        self._buffer[self.added : needed] = rows
        self.added = needed

    def codes(self) -> list[Codes | None]:
        """Return the coded copy of each segment but the last, for a scan that would use it.

        If none was saved, it is made in memory after the scans without it have cost as much.
        """
        if self._codes is None and len(self.stored) >= SMALLEST:
            with self._lock:
                self._asked += 1
                if self._codes is None and self._asked > _PATIENCE:
                    self._codes = Codes.of(self.stored)
        return [self._codes, *(codes for _, codes in self._between)]

    def copy(self) -> "Rows":
        """Return an independent copy that shares the stored part."""
        twin = Rows(self.stored, self._codes, self._between)
        twin.append(self._buffer[: self.added])
        twin.saved = list(self.saved)
        return twin

    def segments(self) -> list[Vectors]:
        """Return the rows as they are in memory, in order."""
        fixed = (rows for rows, _ in self._between)
        return [self.stored, *fixed, self._buffer[: self.added]]

    def row(self, number: int) -> Vectors:
        """Return a copy of one row."""
        at = number
        for rows in self.segments()[:-1]:
            if at < len(rows):
                return np.array(rows[at], np.float32)
            at -= len(rows)
        return np.array(self._buffer[at], np.float32)

    def whole(self) -> Vectors:
        """Return all rows as one read-only matrix: a view, or a copy if rows were added."""
        parts = [part for part in self.segments() if len(part)]
        rows = parts[0] if len(parts) == 1 else np.concatenate([self.stored[:0], *parts])
        view = rows.view()
        view.flags.writeable = False
        return view


class RowRange(NamedTuple):
    """Rows of a pool, with the id of the first and the removed rows, counted from the first."""

    rows: Rows
    first: int
    removed: Ids


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

        run_in_parallel([partial(score, slice(*ends)) for ends in pairwise(cuts.tolist())])
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


def run_in_parallel(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks in parallel, one of them in this thread."""
    if len(tasks) == 1:
        return [tasks[0]()]
    with ThreadPoolExecutor(len(tasks) - 1) as others:
        waiting = [others.submit(task) for task in tasks[1:]]
        return [tasks[0](), *(task.result() for task in waiting)]


_PRODUCTS = 1 << 18  # products in a thread's buffer: as many as its cache fits
_ANCHORS = 256  # anchors in one product
_BUDGET = 1 << 22  # proposals of a thread at once, over all anchors
_SINGLY = 12  # up to this many anchors, one product per anchor beats one product for all
_SHORTEST, _LONGEST, _LONGEST_OF_ONE = 1 << 10, 1 << 12, 1 << 16  # arms in a block
_ANCHORS_IN_TILES = 32  # anchors that are read in tiles together
_IN_TILES, _PARTS = 1 << 13, 8  # fewest arms in a block of tiles, and most blocks: for two threads


class Sums(NamedTuple):
    """Σ and Σ≥ of the clipped similarities over the scanned arms, per anchor.

    `missing` is the number of arms that could not be scanned, always 0 except on a cluster.
    """

    total: Floats
    similar: Floats
    missing: int = 0

    @classmethod
    def unknown(cls, anchors: int, missing: int) -> "Sums":
        """Return sums with which a preference is the similarity itself: the same in another unit.

        A preference under the reading ``example`` is a similarity over a sum for all arms.
        """
        return cls(np.ones(anchors), np.zeros(anchors), missing)


def scan_rows(
    rows: Rows,
    removed: Ids,
    anchors: Vectors,
    bands: Sequence[Band],
    *,
    exclude: Sequence[Ids],
    epsilon: float | None = None,
) -> tuple[list[list[Found]], Sums | None]:
    """Scan rows, using their coded copy if that is faster."""
    few = len(anchors) <= FEW or _can_tile(rows.dim)
    codes = rows.codes() if epsilon is None and few else ()  # they are too coarse for the sums
    blocks = Blocks(rows.segments(), removed, codes)
    return scan(blocks, anchors, bands, exclude=exclude, epsilon=epsilon)


def scan(
    blocks: Blocks,
    anchors: Vectors,
    bands: Sequence[Band],
    *,
    exclude: Sequence[Ids],
    epsilon: float | None = None,
) -> tuple[list[list[Found]], Sums | None]:
    """Find the best arms for every anchor and band, and (with `epsilon`) the sums, in one pass.

    Returns ``found[anchor][band]``. `exclude` has one array of ids per anchor.
    """
    b = len(anchors)
    largest = max((band.k for band in bands if band.k is not None), default=0)
    at_once = _ANCHORS_IN_TILES if _tiled(blocks, anchors) else _ANCHORS
    step = max(1, min(at_once, _BUDGET // max(1, 2 * min(largest, blocks.count))))
    found: list[list[Found]] = []
    totals, similars = np.zeros(b), np.zeros(b)
    for start in range(0, b, step):
        part = slice(start, min(start + step, b))
        chunk = _Chunk(blocks, anchors[part], exclude[part], epsilon)
        results, sums = chunk.scan([Search.of(band, part, b, chunk) for band in bands])
        found.extend(
            [list(row) for row in zip(*results, strict=True)] or [[] for _ in exclude[part]]
        )
        if sums is not None:
            totals[part], similars[part] = sums.total, sums.similar
    return found, None if epsilon is None else Sums(totals, similars)


class _Chunk:
    """A few anchors, and one pass over all blocks for them."""

    def __init__(
        self, blocks: Blocks, anchors: Vectors, exclude: Sequence[Ids], epsilon: float | None
    ) -> None:
        self.blocks, self.anchors = blocks, np.ascontiguousarray(anchors)
        self.hidden, self.epsilon = _Hidden(exclude), epsilon
        self.tiles = None
        if _tiled(blocks, anchors):
            from nextquery.arms.tiles import Tiles

            hidden = (self.hidden.rows, self.hidden.ids)
            self.tiles = Tiles.of(self.anchors, hidden, blocks.removed)
        self.coded = coded_anchors(self.anchors) if blocks.has_codes and not self.tiles else None
        longest = _LONGEST if len(anchors) > 1 else _LONGEST_OF_ONE
        self.width = max(_SHORTEST, min(longest, _PRODUCTS // max(1, len(anchors))))
        self.slack = error_bound(anchors.shape[1])

    def scan(self, searches: list[Search]) -> tuple[list[list[Found]], Sums | None]:
        """Return the results of each search, and the sums."""
        sums = None if self.epsilon is None else _Summing(self, self.epsilon)
        live = self.blocks.count - len(self.blocks.removed)
        coded = max(_IN_TILES, -(-live // _PARTS)) if self.tiles else self.width
        cut = list(self.blocks.cut(self.width, coded=coded))
        waiting = iter(cut)
        lock = threading.Lock()

        def work() -> list[Search]:
            copies = [search.for_thread() for search in searches]
            buffer = np.empty(len(self.anchors) * self.width, np.float32)
            while True:
                with lock:
                    block = next(waiting, None)
                if block is None:
                    return copies
                self._scan_block(block, buffer, copies, sums)

        with self._threads() as threads:
            done = run_in_parallel([work] * max(1, min(threads, len(cut))))
            found = [
                search.finish([copies[number] for copies in done], threads)
                for number, search in enumerate(searches)
            ]
        return found, None if sums is None else sums.finish()

    def _threads(self) -> AbstractContextManager[int]:
        """Return how many threads to use; a product limited by memory uses BLAS's threads."""
        memory_bound = len(self.anchors) == 1 and self.coded is None
        return nullcontext(1) if memory_bound else one_thread_each()

    def _scan_block(
        self, block: Block, buffer: Vectors, searches: list[Search], sums: "_Summing | None"
    ) -> None:
        if self.tiles is not None and block.codes is not None:
            first = block.first - block.place.start
            for search in searches:
                search.propose_coded(self.tiles, block.codes, block.place, first)
            return
        b, width = len(self.anchors), block.last - block.first
        products, slack = buffer[: b * width].reshape(b, width), self.slack
        if self.coded is not None and block.codes is not None:
            slack = block.codes.multiply(block.place, self.coded, products)
        else:
            self._multiply(block, products)
        products[:, self.blocks.removed_in(block)] = -np.inf
        self.hidden.hide(products, block.first)
        for search in searches:
            search.propose(products, block.first, slack)
        if sums is not None:
            sums.add(products, block)

    def _multiply(self, block: Block, products: Vectors) -> None:
        # Rows are finite. BLAS may warn about numbers beside a short row, which it reads but
        # does not use.
        with np.errstate(invalid="ignore", over="ignore"):
            if len(products) > _SINGLY:
                np.matmul(self.anchors, block.rows.T, out=products)
                return
            for anchor, out in zip(self.anchors, products, strict=True):
                np.matmul(block.rows, anchor, out=out)


def _tiled(blocks: Blocks, anchors: Vectors) -> bool:
    """Whether to read the coded rows in tiles; one anchor alone would leave most of them empty."""
    return blocks.has_codes and len(anchors) > 1 and _can_tile(anchors.shape[1])


def _can_tile(dim: int) -> bool:
    from nextquery.arms import tiles  # imports Numba, which takes half a second

    return tiles.available() and dim % tiles.GROUP == 0


class _Hidden:
    """The excluded arms of every anchor, sorted once so that each block finds its arms."""

    def __init__(self, exclude: Sequence[Ids]) -> None:
        rows = np.repeat(np.arange(len(exclude)), [len(ids) for ids in exclude])
        ids = np.concatenate([np.empty(0, np.int64), *exclude])
        order = np.argsort(ids, kind="stable")
        self.rows, self.ids = rows[order], ids[order]

    def hide(self, products: Vectors, first: int) -> None:
        low, high = np.searchsorted(self.ids, (first, first + products.shape[1]))
        products[self.rows[low:high], self.ids[low:high] - first] = -np.inf


class _Summing:
    """Σ and Σ≥ from the products; arms too close to ε for float32 are scored exactly.

    Every block has its own sums, which are added in block order, so threads do not change any bit.
    """

    def __init__(self, chunk: _Chunk, epsilon: float) -> None:
        self.chunk, self.epsilon = chunk, epsilon
        near = (epsilon - chunk.slack, epsilon + chunk.slack) if epsilon > 0 else (1.0, 0.0)
        self.below = max(np.float32(near[0]), np.float32(np.nextafter(0, 1, dtype=np.float32)))
        self.above = np.float32(near[1])
        self.parts: dict[int, tuple[Floats, Floats]] = {}

    def add(self, products: Vectors, block: Block) -> None:
        """Add one block."""
        total, similar = np.empty(len(products)), np.empty(len(products))
        unsure = compiled(kernels.add_up, any_order=True)(
            products, self.below, self.above, total, similar
        )
        if unsure:
            near = np.flatnonzero((products >= self.below) & (products <= self.above))
            row, column = np.divmod(near, products.shape[1])
            exact = self.chunk.blocks.score(column + block.first, self.chunk.anchors, row)
            exact[exact < self.epsilon] = 0
            similar += np.bincount(row, exact, minlength=len(similar))
        self.parts[block.first] = total, similar

    def finish(self) -> Sums:
        """Return the sums over all blocks."""
        none = np.zeros(len(self.chunk.anchors))
        in_order = [self.parts[first] for first in sorted(self.parts)]
        return Sums(sum((t for t, _ in in_order), none), sum((s for _, s in in_order), none))
