"""Leaves become rules: conditions that keep no irrelevant row out are dropped, the others refitted.

A tree cuts a region to pieces wherever an earlier split happened to pass. As rules, the leaves do
not share their splits: each drops what it does not need (as in C4.5rules), which puts the pieces
together again. Then each bound that is left moves to the middle between the outermost relevant row
of the rule and the nearest irrelevant row that only this bound keeps out. Last, a rule whose
relevant rows all follow from other rules is dropped.

Quinlan: C4.5: Programs for Machine Learning, chapter 5. Morgan Kaufmann, 1993.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.boxes import Box, Limit, Range, admits, inside
from nextquery.explore.columns import Column

Rows = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
    return _together(single)


def _together(single: Sequence[tuple[int, Limit]]) -> Box:
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
