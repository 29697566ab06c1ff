"""The rows of a pool in blocks for the scan, with the removed arms."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import kernels
from nextquery.arms.codes import Codes
from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.vectors import compiled


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
