"""The rows of a table as points: where each value stands among the others of its column."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.columns import Column

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]
Points = NDArray[np.float32]
_AGREE = 0.1  # relevant rows that are so far apart in a column halve its weight
_STEPS = np.float32(65535)  # from the first place of a column to the last
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

    @cached_property
    def _by_step(self) -> dict[int, tuple[Rows, NDArray[np.uint16]]]:
        """Per column of numbers, the rows in the order of their steps, and these steps."""
        found = {}
        for number in np.flatnonzero(~self.is_category).tolist():
            steps = _steps(self.points[:, number])
            order = np.argsort(steps, kind="stable")  # of small whole numbers, it takes 1 ms
            found[number] = order, steps[order]
        return found

    def about(self, number: int, low: float, high: float) -> Rows:
        """Return the rows between two places of a column of numbers, and few others.

        >>> x = Column("x", "DOUBLE", "number", np.array([7.0, 9.0, 5.0]))
        >>> Space([x], np.arange(3)).about(0, 0.0, 0.6)
        array([2, 0])
        """
        order, steps = self._by_step[number]
        first, last = (np.uint16(np.float32(min(max(end, 0), 1)) * _STEPS) for end in (low, high))
        return order[np.searchsorted(steps, first) : np.searchsorted(steps, last, "right")]


def _steps(places: NDArray[np.float32]) -> NDArray[np.uint16]:
    return (places.clip(0, 1) * _STEPS).astype(np.uint16)


def points(columns: Sequence[Column], rows: Rows) -> NDArray[np.float32]:
    """Return a point per row: ranks of numbers (null is −1), codes of categories."""
    values = [c.values[rows] if c.is_category else c.ranks[rows] for c in columns]
    return np.nan_to_num(np.stack(values).astype(np.float32), nan=-1.0).T  # columns are contiguous


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


def weights(like: Points, is_category: Flags) -> NDArray[Any]:
    """Return a weight per column: the more, the closer some points are to each other in it.

    >>> weights(np.array([[0.2, 1], [0.3, 1]], np.float32), np.array([False, True])).round(2)
    array([0.5, 1. ], dtype=float32)
    """
    spread = like.max(axis=0) - like.min(axis=0)
    found: NDArray[Any] = _AGREE / (_AGREE + np.where(is_category, spread > 0, spread))
    return found


class Hull(NamedTuple):
    """The smallest box around some points."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    codes: Sequence[frozenset[float]]  # of each category column; empty for the others

    @classmethod
    def around(cls, inner: NDArray[np.float32], is_category: Flags) -> "Hull":
        """Return the hull of points."""
        codes = [
            frozenset(inner[:, number].tolist()) if category else frozenset()
            for number, category in enumerate(is_category)
        ]
        return cls(inner.min(axis=0), inner.max(axis=0), codes)

    def outside(self, many: NDArray[np.float32]) -> Flags:
        """Return, per column and point, whether the point is outside."""
        found = np.empty((len(self.codes), len(many)), bool)
        for number, codes in enumerate(self.codes):
            values = many[:, number]
            if codes:
                known = np.zeros(int(max(values.max(initial=0), *codes, 0)) + 1, bool)
                known[np.array(list(codes), np.int64)] = True
                found[number] = ~known[values.astype(np.int64)]
            else:
                np.less(values, self.low[number], out=found[number])
                found[number] |= values > self.high[number]
        return found
