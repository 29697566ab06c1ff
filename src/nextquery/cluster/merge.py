"""From the answers of the shards to the answer of the pool, and what each of them must hide."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import kernels
from nextquery.arms.kernels import Floats, Ids
from nextquery.arms.search import Found
from nextquery.compiled import compiled


class Flat(NamedTuple):
    """What one shard found for several anchors, anchor after anchor: 12 bytes for each arm."""

    counts: NDArray[np.int32]
    ids: NDArray[np.uint32]  # from the shard's first on
    similarities: Floats

    @classmethod
    def of(cls, found: Sequence[Found]) -> "Flat":
        """The same without a Python object for each anchor."""
        return cls(
            np.array([len(row.ids) for row in found], np.int32),
            np.concatenate([np.empty(0, np.int64), *(row.ids for row in found)]).astype(np.uint32),
            np.concatenate([np.empty(0), *(row.similarities for row in found)]),
        )


class Hidden(NamedTuple):
    """The excluded arms of several anchors, as far as they lie in one shard."""

    counts: NDArray[np.int32]  # by anchor; nothing at all where nothing is hidden
    ids: Ids

    @classmethod
    def of(cls, exclude: Sequence[Ids], bounds: Ids) -> "list[Hidden]":
        """For every shard, between its two bounds, what it must hide.

        >>> exclude = [np.array([1, 4]), np.array([5])]
        >>> [hidden.ids.tolist() for hidden in Hidden.of(exclude, np.array([0, 4, 6]))]
        [[1], [0, 1]]
        """
        sizes = [len(ids) for ids in exclude]
        ids = np.concatenate([np.empty(0, np.int64), *exclude])
        anchor = np.repeat(np.arange(len(sizes)), sizes)
        parts = []
        for first, last in pairwise(bounds.tolist()):
            mine = (ids >= first) & (ids < last)
            counts = np.bincount(anchor[mine], minlength=len(sizes) if mine.any() else 0)
            parts.append(cls(counts.astype(np.int32), ids[mine] - first))
        return parts

    def per_anchor(self, anchors: int) -> list[Ids]:
        """One array of ids for each anchor."""
        if not len(self.counts):
            return [self.ids] * anchors
        return np.split(self.ids, np.cumsum(self.counts)[:-1])


def merged(parts: Sequence[tuple[int, Flat]], k: int | None, missing: int = 0) -> list[Found]:
    """The k best of every anchor by (−similarity, id), from shards that begin at these ids.

    >>> near, far = Flat.of([Found(np.array([1]), np.array([0.5]))]), Flat.of(
    ...     [Found(np.array([0]), np.array([0.9]))])
    >>> merged([(0, near), (2, far)], k=2)[0].ids.tolist()
    [2, 1]
    """
    anchors = len(parts[0][1].counts)
    places = np.arange(anchors, dtype=np.int32)
    rows = np.concatenate([np.repeat(places, flat.counts) for _, flat in parts])
    ids = np.concatenate([flat.ids.astype(np.int64) + first for first, flat in parts])
    scores = np.concatenate([flat.similarities for _, flat in parts])
    counts = np.empty(anchors, np.int64)
    best = np.empty(len(ids), np.int64), np.empty(len(ids))
    everything = np.full(anchors, -np.inf), np.full(anchors, np.inf)
    most = len(ids) if k is None else k
    used = compiled(kernels.in_order)(rows, ids, scores, *everything, most, counts, *best)
    ends = np.cumsum(counts)[:-1]
    pairs = zip(np.split(best[0][:used], ends), np.split(best[1][:used], ends), strict=True)
    return [Found(*pair, missing) for pair in pairs][:anchors]
