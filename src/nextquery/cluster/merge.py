"""Merge the shards' answers into the pool's answer, and split the excluded ids by shard."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import kernels
from nextquery.arms.kernels import Floats, Ids
from nextquery.arms.scan import Found
from nextquery.vectors import compiled


class Flat(NamedTuple):
    """One shard's results for several anchors, concatenated: 12 bytes per arm."""

    counts: NDArray[np.int32]
    ids: NDArray[np.uint32]  # relative to the shard's first id
    similarities: Floats

    @classmethod
    def of(cls, found: Sequence[Found]) -> "Flat":
        """Concatenate the results of all anchors."""
        return cls(
            np.array([len(row.ids) for row in found], np.int32),
            np.concatenate([np.empty(0, np.int64), *(row.ids for row in found)]).astype(np.uint32),
            np.concatenate([np.empty(0), *(row.similarities for row in found)]),
        )


class Hidden(NamedTuple):
    """The excluded arms of several anchors that are in one shard."""

    counts: NDArray[np.int32]  # by anchor; empty if nothing is hidden
    ids: Ids

    @classmethod
    def of(cls, exclude: Sequence[Ids], bounds: Ids) -> "list[Hidden]":
        """Return what each shard, between its two bounds, must hide.

        >>> exclude = [np.array([1, 4]), np.array([5])]
        >>> [hidden.ids.tolist() for hidden in Hidden.of(exclude, np.array([0, 4, 6]))]
        [[1], [0, 1]]
        """
        sizes = [len(ids) for ids in exclude]
        ids = np.concatenate([np.empty(0, np.int64), *exclude])
        anchor = np.repeat(np.arange(len(sizes)), sizes)
        parts = []
        for first, last in pairwise(bounds.tolist()):
            inside = (ids >= first) & (ids < last)
            counts = np.bincount(anchor[inside], minlength=len(sizes) if inside.any() else 0)
            parts.append(cls(counts.astype(np.int32), ids[inside] - first))
        return parts

    def per_anchor(self, anchors: int) -> list[Ids]:
        """Return one array of ids per anchor."""
        if not len(self.counts):
            return [self.ids] * anchors
        return np.split(self.ids, np.cumsum(self.counts)[:-1])


def merged(parts: Sequence[tuple[int, Flat]], k: int | None, missing: int = 0) -> list[Found]:
    """Return the k best of each anchor by (−similarity, id), from shards that start at these ids.

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
    no_bounds = np.full(anchors, -np.inf), np.full(anchors, np.inf)
    most = len(ids) if k is None else k
    used = compiled(kernels.in_order)(rows, ids, scores, *no_bounds, most, counts, *best)
    ends = np.cumsum(counts)[:-1]
    pairs = zip(np.split(best[0][:used], ends), np.split(best[1][:used], ends), strict=True)
    return [Found(*pair, missing) for pair in pairs][:anchors]
