"""Decision trees from labels to boxes: regions, splits, and simplified rules.

*Boxes.* A box is a range or a set of categories for each column that matters.

*The tree* is a CART over columns of numbers, dates and categories, with nulls. Each node is split
where the Gini impurity falls most:

    n · gini = 2 · p · (n − p) / n      for p relevant rows of n

A column of numbers is split at a threshold, and its nulls go to the better side. A category
column is split into two sets of categories. With two classes, the best of all such splits follows
the share of relevant rows (Breiman et al. 1984, theorem 4.5). Of equally good splits, the one
with the widest gap in the table wins. The tree grows until each leaf is pure, because the labels
are right and each was chosen to teach something. The result is its relevant leaves, as boxes.

*Rules.* A tree cuts a region wherever an earlier split happened to pass. As rules, the leaves do
not share their splits: each drops what it does not need (as in C4.5rules), which joins the pieces
again. Then each remaining bound moves to the middle between two rows. One is the outermost
relevant row of the rule, the other the nearest irrelevant row that only this bound excludes.
Last, a rule is dropped if other rules cover all its relevant rows.

*Regions* are relevant rows that belong together, because a few columns set them apart. A region
grows from the relevant row with the nearest others. It takes in further relevant rows, the
nearest first. At most three columns of the smallest box around them must exclude every irrelevant
row. Then the next region grows from the remaining rows. Last, each region, the largest first,
takes rows of smaller ones in the same way. This corrects a row that was assigned too early.

One tree for all labels is best if they are spread over the table. If most of them are close to a
few regions, its first splits cut through those regions. So `learn` also grows one tree per
region, of its relevant rows and all irrelevant ones. Both explain every label; it takes the one
with fewer boxes.

References: Breiman, Friedman, Olshen, Stone: Classification and Regression Trees. Wadsworth,
1984. Quinlan: C4.5: Programs for Machine Learning, chapter 5. Morgan Kaufmann, 1993.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.table import Column, Flags, Hull, Points, Rows, distances, weights


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


_CROWD = 6  # a region starts where this many relevant rows are nearest to each other
_COLUMNS = 3  # at most, that set a region apart


def regions(relevant: Points, irrelevant: Points, is_category: Flags) -> list[Rows]:
    """Return the numbers of the relevant points of each region.

    >>> relevant = np.array([[0.1], [0.2], [0.9]], np.float32)
    >>> irrelevant = np.array([[0.5]], np.float32)
    >>> regions(relevant, irrelevant, np.array([False]))
    [array([0, 1]), array([2])]
    """
    if not len(relevant):
        return []
    apart = np.stack([distances(relevant, point, is_category) for point in relevant])
    crowd = np.sort(apart, axis=1)[:, :_CROWD].mean(axis=1)
    starts: list[list[int]] = [[int(start)] for start in np.argsort(crowd, kind="stable")]
    for _ in range(2):
        found: list[list[int]] = []
        left = np.ones(len(relevant), bool)
        for start in starts:
            members = [member for member in start if left[member]]
            if members:
                members = _grown(relevant, irrelevant, is_category, members, left)
                left[members] = False
                found.append(members)
        starts = sorted(found, key=len, reverse=True)
    return [np.array(sorted(members)) for members in starts]


def _grown(
    relevant: Points, irrelevant: Points, is_category: Flags, start: list[int], left: Flags
) -> list[int]:
    """Return the members of the region that grows from some points, over those that are left."""
    members, untried = list(start), left.copy()
    untried[members] = False
    grew = True
    while grew:
        grew = False
        weight = weights(relevant[members], is_category)
        rest = np.flatnonzero(untried)
        apart = distances(relevant[rest], relevant[members[0]], is_category, weight)
        for nearest in rest[np.argsort(apart, kind="stable")]:
            hull = Hull.around(relevant[[*members, nearest]], is_category)
            untried[nearest] = False
            if _set_apart(hull.outside(irrelevant)):
                rest = rest[untried[rest] | (rest == nearest)]
                within = rest[~hull.outside(relevant[rest]).any(axis=0)]
                members += within.tolist()
                untried[within] = False
                grew = True
                break
    return members


def _set_apart(outside: Flags) -> bool:
    """Return whether a few columns keep every row out, chosen one by one."""
    left = np.ones(outside.shape[1], bool)
    for _ in range(_COLUMNS):
        if not left.any():
            break
        left &= ~outside[outside[:, left].sum(axis=1).argmax()]
    return not left.any()


def rules(
    boxes: Iterable[Box], columns: Sequence[Column], rows: Rows, relevant: Flags
) -> list[Box]:
    """Return simpler boxes, which say the same of the labelled rows as the leaves of a tree.

    Parameters
    ----------
    boxes : the relevant leaves.
    columns : of the table.
    rows, relevant : the labelled rows, and whether each is relevant.
    """
    found = [
        _refitted(_pruned(box, columns, rows, relevant), columns, rows, relevant) for box in boxes
    ]
    covers = [inside([box], columns, rows) & relevant for box in found]
    kept: list[Box] = []
    left = np.any(covers, axis=0) if covers else np.zeros(len(rows), bool)
    while left.any():
        best = int(np.argmax([(cover & left).sum() for cover in covers]))
        kept.append(found[best])
        left = left & ~covers[best]
    return kept


def _conditions(box: Box) -> list[tuple[int, Limit]]:
    """Return the single conditions of a box: each end of a range is one."""
    single: list[tuple[int, Limit]] = []
    for number, limit in box.items():
        if isinstance(limit, frozenset):
            single.append((number, limit))
            continue
        if limit.above > -math.inf:
            single.append((number, Range(limit.above, math.inf, limit.nulls)))
        if limit.most < math.inf or (limit.above == -math.inf and not limit.nulls):
            single.append((number, Range(-math.inf, limit.most, limit.nulls)))
    return single


def _pruned(box: Box, columns: Sequence[Column], rows: Rows, relevant: Flags) -> Box:
    single = _conditions(box)
    fails = np.array([~admits(limit, columns[number], rows) for number, limit in single])
    while len(single):
        count = fails.sum(axis=0)
        only = fails & (count == 1)
        holds_off = (only & ~relevant).any(axis=1)
        if holds_off.all():
            break
        gains = np.where(holds_off, -1.0, (only & relevant).sum(axis=1) - fails.mean(axis=1))
        gains[~holds_off] += 1
        drop = int(gains.argmax())
        del single[drop]
        fails = np.delete(fails, drop, axis=0)
    return _box_of_limits(single)


def _box_of_limits(single: Sequence[tuple[int, Limit]]) -> Box:
    box: dict[int, Limit] = {}
    for number, limit in single:
        before = box.get(number)
        if isinstance(before, Range) and isinstance(limit, Range):
            limit = Range(
                max(before.above, limit.above),
                min(before.most, limit.most),
                before.nulls and limit.nulls,
            )
        box[number] = limit
    return box


def _refitted(box: Box, columns: Sequence[Column], rows: Rows, relevant: Flags) -> Box:
    fitted = dict(box)
    for number, limit in box.items():
        if isinstance(limit, frozenset):
            continue
        column = columns[number]
        others = {n: each for n, each in fitted.items() if n != number}
        here = inside([others], columns, rows)
        values = column.values[rows]
        hits = values[here & relevant & admits(limit, column, rows)]
        hits, misses = hits[~np.isnan(hits)], values[here & ~relevant]
        if not len(hits):
            continue
        low, high = limit.above, limit.most
        below, beyond = misses[misses <= low], misses[misses > high]
        if low > -math.inf and len(below) and below.max() < hits.min():
            low = column.cut(float(below.max()), float(hits.min()))
        if high < math.inf and len(beyond) and hits.max() < beyond.min():
            high = column.cut(float(hits.max()), float(beyond.min()))
        fitted[number] = Range(low, high, limit.nulls)
    return fitted


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


def learn(
    columns: Sequence[Column], rows: Rows, relevant: Flags, regions: Sequence[Rows]
) -> list[Box]:
    """Return the boxes that are relevant.

    Parameters
    ----------
    columns : of the table.
    rows, relevant : the labelled rows, and whether each is relevant.
    regions : the rows of each region.

    >>> x = Column("x", "DOUBLE", "number", np.arange(10.0))
    >>> rows, relevant = np.array([0, 4, 5, 9]), np.array([False, True, True, False])
    >>> learn([x], rows, relevant, [rows[1:3]])
    [{0: Range(above=2.0, most=6.0, nulls=False)}]
    """
    if not relevant.any():
        return []
    joined_tree = merged(_boxes(columns, rows, relevant), columns)
    one_by_one = []
    for region in regions:
        with_others = np.concatenate([region, rows[~relevant]])
        one_by_one += _boxes(columns, with_others, np.arange(len(with_others)) < len(region))
    apart = merged(one_by_one, columns)
    return joined_tree if len(joined_tree) < len(apart) else apart


def _boxes(columns: Sequence[Column], rows: Rows, relevant: Flags) -> list[Box]:
    return rules(relevant_boxes(columns, rows, relevant), columns, rows, relevant)
