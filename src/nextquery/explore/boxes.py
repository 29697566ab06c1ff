"""Regions of a table: a range or a set of categories for each column that matters."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.columns import Column


@dataclass(frozen=True)
class Range:
    """The values v with above < v <= most, and null if `nulls`."""

    above: float = -math.inf
    most: float = math.inf
    nulls: bool = True


Limit = Range | frozenset[int]
Box = Mapping[int, Limit]
"""A limit per column, by its number; a column without one may have any value."""


def admits(
    limit: Limit, column: Column, rows: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Return which rows (or all) have a value within the limit of a column."""
    values = column.values if rows is None else column.values[rows]
    if isinstance(limit, frozenset):
        allowed = np.zeros(len(column.categories) + 1, bool)
        allowed[list(limit)] = True
        within: NDArray[np.bool_] = allowed[values.astype(np.int64)]
        return within
    within = values <= limit.most if limit.most < math.inf else ~np.isnan(values)
    if limit.above > -math.inf:
        within &= values > limit.above
    if limit.nulls and column.has_null:
        within |= np.isnan(values)
    return within


def inside(
    boxes: Iterable[Box], columns: Sequence[Column], rows: NDArray[np.int64] | None = None
) -> NDArray[np.bool_]:
    """Return which rows (or all) are in at least one of the boxes."""
    count = len(columns[0].values) if rows is None else len(rows)
    found = np.zeros(count, bool)
    for box in boxes:
        within = np.ones(count, bool)
        for number, limit in box.items():
            within &= admits(limit, columns[number], rows)
        found |= within
    return found


def merged(boxes: Iterable[Box], columns: Sequence[Column]) -> list[Box]:
    """Return fewer boxes that contain the same rows: neighbours become one.

    Two boxes whose limits differ in one column are one box if their ranges meet there, or if it has
    categories. A limit that admits everything is dropped.

    >>> numbers = Column("x", "DOUBLE", "number", np.arange(9.0))
    >>> merged([{0: Range(1, 3)}, {0: Range(3, 5)}], [numbers])
    [{0: Range(above=1, most=5, nulls=True)}]
    """
    left = [_needed(box, columns) for box in boxes]
    changed = True
    while changed:
        changed = False
        for i, one in enumerate(left):
            for j in range(i + 1, len(left)):
                both = _joined(one, left[j], columns)
                if both is not None:
                    left[i : j + 1] = [both, *left[i + 1 : j]]
                    changed = True
                    break
            if changed:
                break
    return left


def _joined(one: Box, other: Box, columns: Sequence[Column]) -> Box | None:
    """Return the box of the rows that are in either, or None if there is no such box."""
    differ = [n for n in one.keys() | other.keys() if one.get(n) != other.get(n)]
    if not differ:
        return one
    if len(differ) > 1:
        return None
    number = differ[0]
    if number not in one or number not in other:  # one of them admits everything
        return one if number not in one else other
    limit = _union(one[number], other[number])
    return None if limit is None else _needed({**one, number: limit}, columns)


def _union(one: Limit, other: Limit) -> Limit | None:
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one | other
    assert isinstance(one, Range)
    assert isinstance(other, Range)
    if one.nulls != other.nulls or max(one.above, other.above) > min(one.most, other.most):
        return None
    return Range(min(one.above, other.above), max(one.most, other.most), one.nulls)


def _needed(box: Box, columns: Sequence[Column]) -> Box:
    return {n: limit for n, limit in sorted(box.items()) if not _is_everything(limit, columns[n])}


def _is_everything(limit: Limit, column: Column) -> bool:
    if isinstance(limit, frozenset):
        return len(limit) >= column.n_codes
    unbounded = limit.above == -math.inf and limit.most == math.inf
    return unbounded and (limit.nulls or not column.has_null)
