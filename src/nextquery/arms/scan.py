"""Exact top-k search and sums over the whole pool.

The scan passes over the vectors once, in blocks that fit a cache; several threads each take the
next block. A product, of float32 rows or of their coded copy, *proposes* arms: it is off by at most
a known slack, so every arm that could be in the result is kept. The few proposed arms are then
scored by `kernels.score`, the definition of a score, and ordered by (−similarity, id). So block
size, batch size, codes and threads cannot change the result. Memory beyond the result is bounded by
`_BUDGET`.
"""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np

from nextquery.arms import kernels
from nextquery.arms.blas import one_thread_each
from nextquery.arms.blocks import Block, Blocks
from nextquery.arms.codes import FEW, coded_anchors
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.rows import Rows
from nextquery.arms.search import Band, Found, Search, error_bound, together
from nextquery.vectors import compiled

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
            done = together([work] * max(1, min(threads, len(cut))))
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
