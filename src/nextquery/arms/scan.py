"""The exact top-k kernel: which arms are nearest, and what the whole pool sums to.

One pass over the vectors in blocks. A float32 matrix product *proposes* arms: it is off by at most
`error_bound(d)`, so every arm that could belong to the answer is kept. The few proposed arms are
then scored by `similarity`, the one definition of a score, and ordered by (−similarity, id). So
block size, batch size and threads cannot change the answer. Memory is bounded by `_BUDGET` beyond
the answer itself.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]

_BLOCK = 16384  # arms in one product
_ANCHORS = 256  # anchors in one product
_BUDGET = 1 << 23  # proposals held at once, over all anchors
_PAIRS = 8192  # exact scores computed at once


class Band(NamedTuple):
    """Keep the `k` best arms whose similarity lies in [low, high); `k=None` keeps them all."""

    k: int | None
    low: ArrayLike = -np.inf
    high: ArrayLike = np.inf


class Found(NamedTuple):
    """Arms in order (−similarity, id), with their similarities."""

    ids: Ids
    similarities: Floats


class Sums(NamedTuple):
    """Per anchor: Σ and Σ≥ of the clipped similarities over the arms scanned."""

    total: Floats
    similar: Floats


def similarity(rows: Vectors, anchors: Vectors) -> Floats:
    """The similarity of each row with its anchor: the one definition of a score.

    Products of two float32 numbers are exact in float64; they are added in order of the
    coordinates, one by one. So equal rows score equal, whatever stands around them.

    >>> row = np.array([[0.6, 0.8]], np.float32)
    >>> similarity(row, row).round(6).tolist()
    [1.0]
    """
    rows, anchors = np.broadcast_arrays(rows, anchors)
    if rows.shape[-1] == 0:
        return np.zeros(rows.shape[:-1])
    flat_rows, flat_anchors = rows.reshape(-1, rows.shape[-1]), anchors.reshape(-1, rows.shape[-1])
    out = np.empty(len(flat_rows))
    for start in range(0, len(out), _PAIRS):
        part = slice(start, start + _PAIRS)
        products = flat_rows[part].astype(np.float64) * flat_anchors[part]
        out[part] = np.add.accumulate(products, axis=1)[:, -1]
    return out.reshape(rows.shape[:-1])


def error_bound(d: int) -> float:
    """How far a float32 product of two unit rows may lie from `similarity`, in any order of sums.

    |f − s| ≤ γ·Σ|xᵢyᵢ| ≤ γ with γ = d·u / (1 − d·u), u = 2⁻²⁴ (Higham 2002, section 3.1). Two
    units more for rows whose length is 1 only to float32, two for a bound rounded to float32.
    """
    unit = 2.0**-24
    return (d + 4) * unit / (1 - (d + 4) * unit)


def scan(
    blocks: "Blocks",
    anchors: Vectors,
    bands: Sequence[Band],
    *,
    exclude: Sequence[Ids],
    epsilon: float | None = None,
) -> tuple[list[list[Found]], Sums | None]:
    """For every anchor and band the best arms, and (with `epsilon`) the sums, in one pass.

    Returns ``found[anchor][band]``. `exclude` holds one array of ids per anchor.
    """
    b = len(anchors)
    largest = max((band.k for band in bands if band.k is not None), default=0)
    step = max(1, min(_ANCHORS, _BUDGET // max(1, 2 * min(largest, blocks.count))))
    found: list[list[Found]] = []
    totals, similars = np.zeros(b), np.zeros(b)
    for start in range(0, b, step):
        part = slice(start, min(start + step, b))
        chunk = np.ascontiguousarray(anchors[part])
        searches = [_Search(band, part, b, blocks, chunk) for band in bands]
        hidden = _Hidden(exclude[part])
        sums = None if epsilon is None else _Summing(blocks, chunk, epsilon)
        for first, rows in blocks:
            products = chunk @ rows.T
            products[:, blocks.removed_in(first, len(rows))] = -np.inf
            hidden.hide(products, first)
            for search in searches:
                search.look(products, first)
            if sums is not None:
                sums.add(products, first)
        results = [search.finish() for search in searches]
        found.extend([list(row) for row in zip(*results, strict=True)] or [[] for _ in chunk])
        if sums is not None:
            totals[part], similars[part] = sums.total, sums.similar
    return found, None if epsilon is None else Sums(totals, similars)


class Blocks:
    """The pool's rows as a kernel wants them: blocks of at most `_BLOCK`, and who was removed."""

    def __init__(self, segments: Sequence[Vectors], removed: Ids) -> None:
        self.segments = [segment for segment in segments if len(segment)]
        self.starts = np.cumsum([0, *(len(segment) for segment in self.segments)])
        self.count = int(self.starts[-1])
        self.removed = removed  # sorted

    def __iter__(self) -> Iterator[tuple[int, Vectors]]:
        for start, segment in zip(self.starts, self.segments, strict=False):
            for offset in range(0, len(segment), _BLOCK):
                yield int(start) + offset, segment[offset : offset + _BLOCK]

    def removed_in(self, first: int, length: int) -> Ids:
        """The removed rows of one block, counted from its first."""
        low, high = np.searchsorted(self.removed, (first, first + length))
        return self.removed[low:high] - first

    def rows(self, ids: Ids) -> Vectors:
        """The vectors of `ids`, in their order."""
        if len(self.segments) == 1:
            return self.segments[0][ids]
        out = np.empty((len(ids), self.segments[0].shape[1] if self.segments else 0), np.float32)
        which = np.searchsorted(self.starts, ids, side="right") - 1
        for number, segment in enumerate(self.segments):
            mine = np.flatnonzero(which == number)
            out[mine] = segment[ids[mine] - self.starts[number]]
        return out

    def score(self, ids: Ids, anchors: Vectors, row: NDArray[np.intp] | None = None) -> Floats:
        """Exact similarities of `ids` with one anchor, or with ``anchors[row]`` pair by pair."""
        out = np.empty(len(ids))
        for start in range(0, len(ids), _PAIRS):
            part = slice(start, start + _PAIRS)
            against = anchors if row is None else anchors[row[part]]
            out[part] = similarity(self.rows(ids[part]), against)
        return out


class _Hidden:
    """The excluded arms of every anchor, sorted once so that a block finds its own."""

    def __init__(self, exclude: Sequence[Ids]) -> None:
        rows = np.repeat(np.arange(len(exclude)), [len(ids) for ids in exclude])
        ids = np.concatenate([np.empty(0, np.int64), *exclude])
        order = np.argsort(ids, kind="stable")
        self.rows, self.ids = rows[order], ids[order]

    def hide(self, products: Vectors, first: int) -> None:
        low, high = np.searchsorted(self.ids, (first, first + products.shape[1]))
        products[self.rows[low:high], self.ids[low:high] - first] = -np.inf


class _Search:
    """The proposals of one band for a chunk of anchors, kept few by a rising threshold."""

    def __init__(self, band: Band, part: slice, of: int, blocks: Blocks, anchors: Vectors) -> None:
        self.k, self.blocks, self.anchors = band.k, blocks, anchors
        self.low = np.broadcast_to(np.asarray(band.low, np.float64), of)[part]
        self.high = np.broadcast_to(np.asarray(band.high, np.float64), of)[part]
        self.delta = error_bound(anchors.shape[1])
        self.threshold = self.low - self.delta
        self.limit = np.inf if band.k is None else 2 * band.k * len(anchors)
        self.proposals = [(np.empty(0, np.intp), np.empty(0, np.int64), np.empty(0, np.float32))]
        self.pending = 0

    def look(self, products: Vectors, first: int) -> None:
        """Propose the arms of one block that may yet be among the k best of the band."""
        passes = self._passes(products)
        if np.count_nonzero(passes) > self.limit:
            self._raise_threshold(products)
            passes = self._passes(products)
        flat = np.flatnonzero(passes)
        row, column = np.divmod(flat, products.shape[1])
        self.proposals.append((row, column + first, products.ravel()[flat]))
        self.pending += len(flat)
        if self.pending > self.limit:
            self._tighten()

    def _passes(self, products: Vectors) -> NDArray[np.bool_]:
        passes = products >= self.threshold.astype(np.float32)[:, None]
        if np.any(self.threshold == -np.inf):
            passes &= products > -np.inf
        if np.any(self.high < np.inf):
            passes &= products <= (self.high + self.delta).astype(np.float32)[:, None]
        return passes

    def _raise_threshold(self, products: Vectors) -> None:
        """The k-th best sure arm of this block alone already rules most of it out."""
        width = products.shape[1]
        if self.k is None or self.k > width:
            return
        low, high = self.low + self.delta, self.high - self.delta
        sure = (products >= low[:, None]) & (products < high[:, None])
        key = np.where(sure, products, np.float32(-np.inf))
        kth = np.partition(key, width - self.k, axis=1)[:, width - self.k]
        np.maximum(self.threshold, kth.astype(np.float64) - 2 * self.delta, out=self.threshold)

    def _tighten(self) -> None:
        """Raise each anchor's threshold to its k-th best *sure* proposal, drop what is below it.

        A proposal is sure when it lies in the band whatever its rounding. The k-th best sure one
        is at least p − δ in truth, and an arm that good is proposed at p − 2δ or above.
        """
        assert self.k is not None
        row, ids, product = self._gather()
        sure = (product >= (self.low + self.delta)[row]) & (product < (self.high - self.delta)[row])
        key = np.where(sure, product, np.float32(-np.inf))
        counts = np.bincount(row, minlength=len(self.low))
        kth = np.cumsum(counts) - counts + self.k - 1
        enough = np.flatnonzero(counts >= self.k)
        best = _sorted_in_rows(row, key)[kth[enough]].astype(np.float64) - 2 * self.delta
        self.threshold[enough] = np.maximum(self.threshold[enough], best)
        keep = product >= self.threshold.astype(np.float32)[row]
        self.proposals, self.pending = [(row[keep], ids[keep], product[keep])], int(keep.sum())
        if self.pending > self.limit:  # more near-ties than float32 can tell apart
            row, ids, exact = self._settle()
            self.proposals = [(row, ids, exact.astype(np.float32))]
            self.pending = len(row)

    def _settle(self) -> tuple[NDArray[np.intp], Ids, Floats]:
        """Score the proposals by definition; the k best of the band by (row, −similarity, id)."""
        row, ids, _ = self._gather()
        exact = self.blocks.score(ids, self.anchors, row)
        inside = np.flatnonzero((exact >= self.low[row]) & (exact < self.high[row]))
        order = inside[np.lexsort((ids[inside], -exact[inside], row[inside]))]
        counts = np.bincount(row[order], minlength=len(self.low))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = order if self.k is None else order[rank < self.k]
        return row[order], ids[order], exact[order]

    def _gather(self) -> tuple[NDArray[np.intp], Ids, Vectors]:
        row, ids, product = (np.concatenate(parts) for parts in zip(*self.proposals, strict=True))
        return row, ids, product

    def finish(self) -> list[Found]:
        """The answer, one `Found` per anchor."""
        if self.k is not None:
            self._tighten()
        row, ids, exact = self._settle()
        ends = np.cumsum(np.bincount(row, minlength=len(self.anchors)))[:-1]
        return [
            Found(*pair) for pair in zip(np.split(ids, ends), np.split(exact, ends), strict=True)
        ]


class _Summing:
    """Σ and Σ≥ from the products; arms too near ε for float32 to judge are scored exactly."""

    def __init__(self, blocks: Blocks, anchors: Vectors, epsilon: float) -> None:
        self.blocks, self.anchors, self.epsilon = blocks, anchors, epsilon
        self.delta = error_bound(anchors.shape[1])
        self.total, self.similar = np.zeros(len(anchors)), np.zeros(len(anchors))

    def add(self, products: Vectors, first: int) -> None:
        """Add one block; it is clipped in place."""
        clipped = np.maximum(products, 0, out=products)
        self.total += clipped.sum(axis=1)
        near = np.flatnonzero(clipped >= np.float32(self.epsilon - self.delta))
        row, column = np.divmod(near, clipped.shape[1])
        value = clipped.ravel()[near].astype(np.float64)
        unsure = np.flatnonzero((value <= self.epsilon + self.delta) & (value > 0))
        value[unsure] = self.blocks.score(column[unsure] + first, self.anchors, row[unsure])
        value[value < self.epsilon] = 0
        self.similar += np.bincount(row, value, minlength=len(self.similar))


def _sorted_in_rows(row: NDArray[np.intp], key: Vectors) -> Vectors:
    """The keys by (row, −key), sorted as whole numbers: many times faster than a lexsort.

    The bits of a float32, with the sign turned into an offset, order as the number does.

    >>> _sorted_in_rows(np.array([1, 0, 1]), np.array([-2, 5, 3], np.float32)).tolist()
    [5.0, 3.0, -2.0]
    """
    sign = np.uint32(1 << 31)
    bits = key.view(np.uint32)
    rising = np.where(bits & sign, ~bits, bits | sign)
    both = row.astype(np.uint64) << np.uint64(32) | (~rising).astype(np.uint64)
    both.sort()
    rising = ~both.astype(np.uint32)  # the lower half
    return np.where(rising & sign, rising & ~sign, ~rising).view(np.float32)
