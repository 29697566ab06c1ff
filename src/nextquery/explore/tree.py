"""A decision tree (CART) over columns of numbers, dates and categories, with nulls.

Each node is split where the Gini impurity falls most:

    n · gini = 2 · p · (n − p) / n      for p relevant rows of n

A column of numbers is split at a threshold, and its nulls go to the better side. A category column
is split into two sets of categories. With two classes, the best of all such splits is found among
those that follow the share of relevant rows (Breiman et al. 1984, theorem 4.5). Of equally good
splits, the one with the widest gap in the table wins.

The tree is grown until each leaf is pure, because the labels are right and each was chosen to teach
something. What it answers are its relevant leaves, as boxes.

Breiman, Friedman, Olshen, Stone: Classification and Regression Trees. Wadsworth, 1984.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.boxes import Box, Limit, Range
from nextquery.explore.columns import Column

_TIE = 1e-9  # weight of the gap between two rows: it only decides between equal impurities


@dataclass(frozen=True)
class _Split:
    """How a node is split; the left side has the smaller values, or the categories `codes`."""

    impurity: float
    column: int
    left: NDArray[np.bool_]  # which rows of the node go left
    between: tuple[float, float] = (0.0, 0.0)  # values of two rows around the threshold
    nulls_left: bool = False
    codes: frozenset[int] | None = None


def relevant_boxes(
    columns: Sequence[Column], rows: NDArray[np.int64], relevant: NDArray[np.bool_]
) -> list[Box]:
    """Grow a tree on labelled rows and return its relevant leaves.

    Parameters
    ----------
    columns : of the table.
    rows : the labelled rows.
    relevant : whether each of them is relevant.

    >>> x = Column("x", "DOUBLE", "number", np.arange(10.0))
    >>> relevant_boxes([x], np.array([0, 4, 5, 9]), np.array([False, True, True, False]))
    [{0: Range(above=2.0, most=6.0, nulls=False)}]
    """
    found: list[Box] = []
    stack: list[tuple[NDArray[np.int64], NDArray[np.bool_], Box]] = [(rows, relevant, {})]
    while stack:
        rows, relevant, box = stack.pop()
        split = None
        if relevant.any() and not relevant.all():
            split = _best_split(columns, rows, relevant)
        if split is None:
            if relevant.sum() * 2 > len(relevant):
                found.append(box)
            continue
        for side, limit in zip(
            (split.left, ~split.left), _limits(split, columns, box), strict=True
        ):
            stack.append((rows[side], relevant[side], {**box, split.column: limit}))
    return found


def _best_split(
    columns: Sequence[Column], rows: NDArray[np.int64], relevant: NDArray[np.bool_]
) -> _Split | None:
    best: _Split | None = None
    for number, column in enumerate(columns):
        split_of = _of_categories if column.is_category else _of_numbers
        split = split_of(number, column, rows, relevant)
        if split is not None and (best is None or split.impurity < best.impurity):
            best = split
    return best


def _of_numbers(
    number: int, column: Column, rows: NDArray[np.int64], relevant: NDArray[np.bool_]
) -> _Split | None:
    values = column.values[rows]
    order = np.argsort(values, kind="stable")  # nulls come last
    ordered, is_null = values[order], np.isnan(values)
    known = len(rows) - int(is_null.sum())
    if known == 0:
        return None
    ranks = column.ranks[rows][order]
    hits = np.cumsum(relevant[order])
    cuts = np.flatnonzero(ordered[: known - 1] < ordered[1:known])
    best: _Split | None = None
    null_hits = int(hits[-1] - hits[known - 1])
    for nulls_left in (False, True) if known < len(rows) else (False,):
        more, more_hits = (len(rows) - known, null_hits) if nulls_left else (0, 0)
        tried = cuts if nulls_left or known == len(rows) else np.append(cuts, known - 1)
        if not len(tried):
            continue
        cost = _impurity(tried + 1 + more, hits[tried] + more_hits, len(rows), int(hits[-1]))
        gaps = np.where(tried < known - 1, ranks[np.minimum(tried + 1, known - 1)], 1.0)
        cost -= _TIE * (gaps - ranks[tried])
        at = int(cost.argmin())
        cut = int(tried[at])
        if best is None or cost[at] < best.impurity:
            high = float(ordered[cut + 1]) if cut < known - 1 else np.inf
            left = values <= ordered[cut]
            left |= is_null & nulls_left
            best = _Split(float(cost[at]), number, left, (float(ordered[cut]), high), nulls_left)
            if cut == known - 1:  # numbers on one side, nulls on the other
                best = _Split(float(cost[at]), number, ~is_null, (np.inf, np.inf), False)
    return best


def _of_categories(
    number: int, column: Column, rows: NDArray[np.int64], relevant: NDArray[np.bool_]
) -> _Split | None:
    codes = column.values[rows].astype(np.int64)
    seen, at, counts = np.unique(codes, return_inverse=True, return_counts=True)
    if len(seen) == 1:
        return None
    hits = np.bincount(at, weights=relevant)
    shares = hits / counts
    order = np.argsort(-shares, kind="stable")
    cuts = np.flatnonzero(np.diff(shares[order]))
    if not len(cuts):
        return None
    n, p = np.cumsum(counts[order])[cuts], np.cumsum(hits[order])[cuts]
    cost = _impurity(n, p, len(rows), int(relevant.sum()))
    best = int(cost.argmin())
    chosen = order[: cuts[best] + 1]
    left = np.isin(at, chosen)
    return _Split(float(cost[best]), number, left, codes=frozenset(seen[chosen].tolist()))


def _impurity(n: NDArray[Any], p: NDArray[Any], total: int, hits: int) -> NDArray[np.float64]:
    """Return n · gini of both sides together, for each split."""
    rest, rest_hits = total - n, hits - p
    impurity: NDArray[np.float64] = 2 * (p * (n - p) / n + rest_hits * (rest - rest_hits) / rest)
    return impurity


def _limits(split: _Split, columns: Sequence[Column], box: Box) -> tuple[Limit, Limit]:
    """Return the limits of the two sides in the column that is split."""
    column, now = columns[split.column], box.get(split.column)
    if split.codes is not None:
        every = now if isinstance(now, frozenset) else frozenset(range(column.n_codes))
        return split.codes, every - split.codes  # categories never labelled here are not relevant
    now = now if isinstance(now, Range) else Range(nulls=column.has_null)
    low, high = split.between
    cut = low if low == np.inf else column.cut(low, high)
    return (
        Range(now.above, cut, now.nulls and split.nulls_left),
        Range(cut, now.most, now.nulls and not split.nulls_left),
    )
