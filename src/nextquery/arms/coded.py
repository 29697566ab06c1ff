"""A copy of the vectors in a quarter of their size, for scans limited by memory bandwidth.

Each row is whole numbers −127…127 times its own scale. The rounding error has a known length r, and
by the Cauchy–Schwarz inequality a product with a unit anchor is off by at most r. The copy only
proposes arms, so the exact top k is still found (see `nextquery.arms.scan`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import kernels
from nextquery.arms.kernels import Vectors
from nextquery.folders import Folder, Part
from nextquery.vectors import compiled

FILES = ("codes.npy", "code_scales.npy", "code_residuals.npy")
GROUP = 1024
"""Rows that share one bound on the rounding error."""
SMALLEST = 1 << 15
"""Rows below which a copy gains nothing."""
FEW = 16
"""Up to this many anchors, reading a quarter of the bytes beats the faster product of floats."""
_ROWS = 1 << 16  # coded at once


class CodedAnchors(NamedTuple):
    """Anchors as whole numbers times a step, and the largest length of their rounding error."""

    codes: NDArray[np.int16]
    steps: Vectors
    residual: float


class Codes(NamedTuple):
    """The coded rows of a pool.

    >>> codes = Codes.of(np.array([[0.6, 0.8]], np.float32))
    >>> codes.rows.tolist(), f"{codes.residuals[0]:.4f}"
    ([[95, 127]], '0.0016')
    """

    rows: NDArray[np.int8]
    scales: Vectors
    residuals: NDArray[np.float32]  # the largest of each GROUP

    @classmethod
    def of(cls, vectors: Vectors) -> "Codes":
        """Code every row."""
        n, d = vectors.shape
        codes = cls(np.empty((n, d), np.int8), np.empty(n, np.float32), _no_residuals(n))
        for start in range(0, n, _ROWS):
            part = slice(start, start + _ROWS)
            rows = np.ascontiguousarray(vectors[part])
            errors = np.empty(len(rows))
            compiled(kernels.quantise)(rows, codes.rows[part], codes.scales[part], errors)
            largest = np.maximum.reduceat(errors, np.arange(0, len(errors), GROUP))
            groups = slice(start // GROUP, start // GROUP + len(largest))
            codes.residuals[groups] = np.nextafter(largest.astype(np.float32), np.float32(np.inf))
        return codes

    @classmethod
    def open(cls, folder: Folder) -> "Codes | None":
        """Return the codes of an opened folder, memory-mapped, if it has any."""
        return cls(*(folder.array(name) for name in FILES)) if FILES[0] in folder else None

    def cut(self, first: int, last: int) -> "Codes":
        """Return the codes of a range of rows; a group that is cut keeps a valid bound."""
        starts = np.arange(first, last, GROUP)
        ends = np.minimum(starts + GROUP, last) - 1
        largest = np.maximum(self.residuals[starts // GROUP], self.residuals[ends // GROUP])
        return Codes(self.rows[first:last], self.scales[first:last], largest)

    def parts(self) -> dict[str, Part]:
        """Return the parts to save in a folder."""
        return dict(zip(FILES, self, strict=True))

    def multiply(self, part: slice, anchors: CodedAnchors, out: Vectors) -> float:
        """Write the products of some rows with all anchors to `out`; return their slack."""
        rows, scales = self.rows[part], self.scales[part]
        compiled(kernels.multiply_codes)(rows, scales, anchors.codes, anchors.steps, out)
        return self.slack(part, anchors.residual)

    def slack(self, part: slice, residual: float) -> float:
        """Return how far the products of some rows can be off, with anchors that are coded too."""
        error = float(self.residuals[part.start // GROUP : -(-part.stop // GROUP)].max())
        rounding = 8 * 2.0**-24  # of the scaling, and of lengths that are 1 only to float32
        return (error + (1 + error) * residual) * (1 + rounding) + rounding


def coded_anchors(anchors: Vectors, *, finest: int = 2**15 - 1) -> CodedAnchors:
    """Return anchors as whole numbers up to `finest`, or what 32-bit sums over a row allow."""
    finest = min(finest, (2**31 - 1) // (127 * max(1, anchors.shape[1])))
    largest = np.abs(anchors).max(axis=1, initial=0.0)
    steps = np.where(largest > 0, largest / np.float32(finest), np.float32(1)).astype(np.float32)
    wide = anchors.astype(np.float64)
    codes = np.clip(np.rint(wide / steps[:, None]), -finest, finest).astype(np.int16)
    errors = wide - codes * steps[:, None].astype(np.float64)
    return CodedAnchors(
        codes, steps, float(np.sqrt((errors * errors).sum(axis=1)).max(initial=0.0))
    )


def _no_residuals(n: int) -> NDArray[np.float32]:
    return np.zeros(-(-n // GROUP), np.float32)
