"""The rows of a table as points: where each value stands among the others of its column."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.columns import Column

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]
_AGREE = 0.1  # relevant rows that are so far apart in a column halve its weight
_CATEGORY = 0.5  # how far apart two different categories are; the ends of a range are 1 apart


class Space:
    """The rows that may be asked for, as points.

    Parameters
    ----------
    columns : of the table.
    rows : the rows of the table that are in this space, in ascending order.
    """

    def __init__(self, columns: Sequence[Column], rows: Rows) -> None:
        self.columns, self.rows = columns, rows
        self.is_category = np.array([column.is_category for column in columns])
        self.points = points(columns, rows)

    def distances(self, row: int, like: Rows) -> NDArray[np.float32]:
        """Return how far every row is from a row, mostly by the columns in which `like` agree."""
        inner = self.points[like]
        spread = inner.max(axis=0) - inner.min(axis=0)
        weights = _AGREE / (_AGREE + np.where(self.is_category, spread > 0, spread))
        return distances(self.points, self.points[row], self.is_category, weights)


def points(columns: Sequence[Column], rows: Rows) -> NDArray[np.float32]:
    """Return a point per row: ranks of numbers (null is −1), codes of categories."""
    values = [c.values[rows] if c.is_category else c.ranks[rows] for c in columns]
    return np.nan_to_num(np.stack(values, axis=1).astype(np.float32), nan=-1.0)


def distances(
    many: NDArray[np.float32],
    point: NDArray[np.float32],
    is_category: Flags,
    weights: NDArray[Any] | None = None,
) -> NDArray[np.float32]:
    """Return the sum over columns of how far apart the values are, with a weight per column.

    >>> many = np.array([[0.1, 2], [0.5, 3]], np.float32)
    >>> distances(many, many[0], np.array([False, True])).round(2)
    array([0. , 0.9], dtype=float32)
    """
    found = np.zeros(len(many), np.float32)
    for number, category in enumerate(is_category):
        values = many[:, number]
        weight = np.float32(1 if weights is None else weights[number])
        if category:
            found += weight * np.float32(_CATEGORY) * (values != point[number])
        else:
            found += weight * np.abs(values - point[number])
    return found


class Hull(NamedTuple):
    """The smallest box around some points."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    codes: Sequence[frozenset[float]]  # of each category column; empty for the others

    @classmethod
    def around(cls, inner: NDArray[np.float32], is_category: Flags, *, wider: float = 0) -> "Hull":
        """Return the hull of points; ranges are made `wider` by that share at both ends."""
        low, high = inner.min(axis=0), inner.max(axis=0)
        more = (high - low) * np.float32(wider)
        codes = [
            frozenset(inner[:, number].tolist()) if category else frozenset()
            for number, category in enumerate(is_category)
        ]
        return cls(low - more, high + more, codes)

    def outside(self, many: NDArray[np.float32]) -> Flags:
        """Return, per column and point, whether the point is outside."""
        found = np.empty((len(self.codes), len(many)), bool)
        for number, codes in enumerate(self.codes):
            values = many[:, number]
            if codes:
                found[number] = ~np.isin(values, list(codes))
            else:
                np.less(values, self.low[number], out=found[number])
                found[number] |= values > self.high[number]
        return found
