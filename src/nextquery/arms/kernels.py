"""The compiled loops of the scan: propose, sum and score.

A product is off by at most its `slack`, so an arm's score is in [product − slack, product + slack].
The compiler vectorises loops over a slice that starts at 0.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]

LOWEST = np.float32(np.finfo(np.float32).min)
"""Removed and excluded arms are below it."""
BINS = 256
"""Parts of the range of a row's proposals, to find the k-th best of them."""
SPAN = 256
"""Products tested together; they are tested one by one only if one of them passes."""


def propose(
    products: Vectors,
    least: Vectors,
    most: Vectors,
    first: int,
    slack: float,
    columns: tuple[int, int],
    from_row: int,
    rows: NDArray[np.int32],
    ids: Ids,
    values: Vectors,
    slacks: Vectors,
    used: int,
) -> tuple[int, int]:
    """Record every product within [least, most] of its row, in `columns`, starting at `from_row`.

    Stops before a row that may not fit. Returns the next row and the number of entries used.
    """
    for row in range(from_row, len(products)):
        if used + columns[1] - columns[0] > len(ids):
            return row, used
        low, high = least[row], most[row]
        for start in range(columns[0], columns[1], SPAN):
            span = products[row, start : min(start + SPAN, columns[1])]
            passing = np.float32(0)
            for j in range(len(span)):
                passing += np.float32(1) if (span[j] >= low) & (span[j] <= high) else np.float32(0)
            if passing > 0:
                for j in range(len(span)):
                    if low <= span[j] <= high:
                        rows[used], ids[used] = row, first + start + j
                        values[used], slacks[used] = span[j], slack
                        used += 1
    return len(products), used


def tighten(
    rows: NDArray[np.int32],
    ids: Ids,
    values: Vectors,
    slacks: Vectors,
    used: int,
    k: int,
    low: Floats,
    high: Floats,
    floor: Floats,
) -> int:
    """Raise each row's floor to about its k-th best *sure* proposal; drop what cannot reach it.

    A proposal is sure if it is in [low, high) for any error within its slack. So at least k arms
    score as well as the floor, and an arm that certainly scores worse is not among the k best. The
    k-th best is found to within one of `BINS` parts of the range of a row's sure proposals.
    """
    least, most = np.full(len(floor), np.inf), np.full(len(floor), -np.inf)
    counts = np.zeros(len(floor), np.int64)
    for i in range(used):
        row, slack = rows[i], np.float64(slacks[i])
        sure, above = np.float64(values[i]) - slack, np.float64(values[i]) + slack
        if sure >= low[row] and above < high[row]:
            least[row], most[row] = min(least[row], sure), max(most[row], sure)
            counts[row] += 1
    in_bin = np.zeros((len(floor), BINS), np.int64)
    smallest = np.full((len(floor), BINS), np.inf)
    for i in range(used):
        row, slack = rows[i], np.float64(slacks[i])
        sure, above = np.float64(values[i]) - slack, np.float64(values[i]) + slack
        if counts[row] >= k and sure >= low[row] and above < high[row]:
            width = most[row] - least[row]
            part = (sure - least[row]) / width if width > 0 else 0.0
            place = min(int(part * BINS), BINS - 1)
            in_bin[row, place] += 1
            smallest[row, place] = min(smallest[row, place], sure)
    for row in range(len(floor)):
        if counts[row] >= k:
            place, better = BINS, 0
            while better < k:
                place -= 1
                better += in_bin[row, place]
            floor[row] = max(floor[row], smallest[row, place])
    kept = 0
    for i in range(used):
        if np.float64(values[i]) + np.float64(slacks[i]) >= floor[rows[i]]:
            rows[kept], ids[kept] = rows[i], ids[i]
            values[kept], slacks[kept] = values[i], slacks[i]
            kept += 1
    return kept


def add_up(products: Vectors, below: float, above: float, total: Floats, similar: Floats) -> int:
    """Sum positive products, and those above `above`; return how many are in [below, above]."""
    unsure = 0
    for row in range(len(products)):
        values = products[row]
        everything = similars = between = np.float32(0)
        for j in range(len(values)):
            value = max(values[j], np.float32(0))
            everything += value
            similars += value if value > above else np.float32(0)
            between += np.float32(1) if (value >= below) & (value <= above) else np.float32(0)
        total[row] = everything
        similar[row] = similars
        unsure += int(between)
    return unsure


def score(
    rows: Vectors, ids: Ids, first: int, anchors: Vectors, anchor: NDArray[Any], out: Floats
) -> None:
    """Compute the similarity of arm ``ids[i]`` with ``anchors[anchor[i]]``, if it is in `rows`.

    This is the definition of a score. Products of two float32 numbers are exact in float64; they
    are added one by one, in the order of the coordinates. So equal rows have equal scores, whatever
    rows are around them.
    """
    for i in range(len(ids)):
        arm = ids[i] - first
        if 0 <= arm < len(rows):
            row, against = rows[arm], anchors[anchor[i]]
            total = 0.0
            for j in range(len(row)):
                total += np.float64(row[j]) * np.float64(against[j])
            out[i] = total


def in_order(
    rows: NDArray[np.int32],
    ids: Ids,
    scores: Floats,
    low: Floats,
    high: Floats,
    k: int,
    counts: Ids,
    best_ids: Ids,
    best_scores: Floats,
) -> int:
    """Find the k best of every row with a score in [low, high), by (−score, id), row by row.

    Fills `counts` by row, `best_ids` and `best_scores`; returns the total number of entries.
    """
    within = np.zeros(len(counts) + 1, np.int64)
    for i in range(len(ids)):
        if low[rows[i]] <= scores[i] < high[rows[i]]:
            within[rows[i] + 1] += 1
    ends = np.cumsum(within)
    place = ends[:-1].copy()
    entries = np.empty(ends[-1], np.int64)
    for i in range(len(ids)):
        row = rows[i]
        if low[row] <= scores[i] < high[row]:
            entries[place[row]] = i
            place[row] += 1
    used = 0
    for row in range(len(counts)):
        part = entries[ends[row] : ends[row + 1]]
        part = part[np.argsort(-scores[part])]
        start = 0
        while start < min(len(part), k):
            stop = start + 1
            while stop < len(part) and scores[part[stop]] == scores[part[start]]:
                stop += 1
            if stop > start + 1:  # a tie
                tied = part[start:stop].copy()
                part[start:stop] = tied[np.argsort(ids[tied])]
            start = stop
        counts[row] = min(len(part), k)
        for i in part[:k]:
            best_ids[used], best_scores[used] = ids[i], scores[i]
            used += 1
    return used


def quantise(rows: Vectors, codes: NDArray[np.int8], scales: Vectors, residuals: Floats) -> None:
    """Code rows as whole numbers −127…127 times a scale, with the length of the rounding error."""
    for i in range(len(rows)):
        row = rows[i]
        largest = np.float32(0)
        for j in range(len(row)):
            largest = max(largest, abs(row[j]))
        scale = largest / np.float32(127)
        scales[i] = scale
        squares = 0.0
        for j in range(len(row)):
            code = np.rint(row[j] / scale) if scale > 0 else np.float32(0)
            codes[i, j] = np.int8(min(max(code, np.float32(-127)), np.float32(127)))
            error = np.float64(row[j]) - np.float64(scale) * np.float64(codes[i, j])
            squares += error * error
        residuals[i] = np.sqrt(squares)


def multiply_codes(
    codes: NDArray[np.int8],
    scales: Vectors,
    anchors: NDArray[np.int16],
    steps: Vectors,
    products: Vectors,
) -> None:
    """Multiply coded rows with coded anchors; the sums are of integers, so exact up to scaling."""
    for i in range(len(codes)):
        row, scale = codes[i], scales[i]
        for b in range(len(anchors)):
            anchor = anchors[b]
            total = np.int32(0)
            for j in range(len(row)):  # 32 bits, so that one instruction computes two products
                total = np.int32(total + np.int32(np.int16(row[j]) * np.int32(anchor[j])))
            products[b, i] = np.float32(total) * scale * steps[b]
