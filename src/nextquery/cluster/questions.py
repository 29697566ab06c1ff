"""The tasks that shards run: searches, and arms by id. Ids are relative to the shard's first."""

from collections.abc import Sequence

import numpy as np

from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.scan import Band, Blocks, RowRange, scan_rows
from nextquery.cluster.merge import Flat, Hidden


def scan(
    part: RowRange, anchors: Vectors, bands: Sequence[Band], hidden: Hidden, epsilon: float | None
) -> tuple[list[Flat], Floats | None]:
    """Return the best arms of every band, by anchor, and (with `epsilon`) Σ and Σ≥."""
    exclude = hidden.per_anchor(len(anchors))
    found, sums = scan_rows(
        part.rows, part.removed, anchors, bands, exclude=exclude, epsilon=epsilon
    )
    flat = [Flat.of([row[number] for row in found]) for number in range(len(bands))]
    return flat, None if sums is None else np.stack([sums.total, sums.similar])


def rows(part: RowRange, ids: Ids) -> Vectors:
    """Return the vectors of a few arms."""
    return _blocks(part).rows(ids)


def score(part: RowRange, ids: Ids, anchor: Vectors) -> Floats:
    """Return the exact similarities of a few arms to one anchor."""
    return _blocks(part).score(ids, anchor)


def _blocks(part: RowRange) -> Blocks:
    return Blocks(part.rows.segments(), part.removed)
