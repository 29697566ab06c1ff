"""The loops of the scan as machine code: propose, sum up, score. The only such file of the arms.

A product is off by at most its `slack`, so an arm's score lies in [product − slack, product +
slack]. Loops over a slice from 0 are what the compiler turns into vector instructions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]

SPAN = 256
"""Products looked at together: only where one of them passes are they looked at one by one."""


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
    """Write down every product within [least, most] of its row, in some columns, from a row on.

    Stops before a row for which there may be no room. Returns the next row and what is used.
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
    """Raise each row's floor to its k-th best *sure* proposal, and drop what cannot reach it.

    A proposal is sure when it lies in [low, high) whatever its slack. So k arms score at least
    that well, and one that certainly scores worse is not among the k best.
    """
    counts = np.zeros(len(floor), np.int64)
    for i in range(used):
        row, value, slack = rows[i], np.float64(values[i]), np.float64(slacks[i])
        if value - slack >= low[row] and value + slack < high[row]:
            counts[row] += 1
    ends = np.cumsum(counts)
    sure = np.empty(ends[-1] if len(ends) else 0, np.float64)
    place = ends - counts
    for i in range(used):
        row, value, slack = rows[i], np.float64(values[i]), np.float64(slacks[i])
        if value - slack >= low[row] and value + slack < high[row]:
            sure[place[row]] = value - slack
            place[row] += 1
    for row in range(len(floor)):
        if counts[row] >= k:
            mine = sure[ends[row] - counts[row] : ends[row]]
            floor[row] = max(floor[row], np.partition(mine, counts[row] - k)[counts[row] - k])
    kept = 0
    for i in range(used):
        if np.float64(values[i]) + np.float64(slacks[i]) >= floor[rows[i]]:
            rows[kept], ids[kept] = rows[i], ids[i]
            values[kept], slacks[kept] = values[i], slacks[i]
            kept += 1
    return kept


def add_up(products: Vectors, below: float, above: float, total: Floats, similar: Floats) -> int:
    """Σ of the positive products, and of those above `above`; how many lie in [below, above]."""
    unsure = 0
    for row in range(len(products)):
        mine = products[row]
        everything = similars = between = np.float32(0)
        for j in range(len(mine)):
            value = max(mine[j], np.float32(0))
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
    """The similarity of arm ``ids[i]`` with ``anchors[anchor[i]]``, where the arm is among `rows`.

    This is the one definition of a score. Products of two float32 numbers are exact in float64;
    they are added in order of the coordinates, one by one. So equal rows score equal, whatever
    stands around them.
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
    """The k best of every row with a score in [low, high), by (−score, id), row after row.

    Fills `counts` by row, `best_ids` and `best_scores`; returns how many there are in all.
    """
    within = np.zeros(len(counts) + 1, np.int64)
    for i in range(len(ids)):
        if low[rows[i]] <= scores[i] < high[rows[i]]:
            within[rows[i] + 1] += 1
    ends = np.cumsum(within)
    place = ends[:-1].copy()
    mine = np.empty(ends[-1], np.int64)
    for i in range(len(ids)):
        row = rows[i]
        if low[row] <= scores[i] < high[row]:
            mine[place[row]] = i
            place[row] += 1
    used = 0
    for row in range(len(counts)):
        part = mine[ends[row] : ends[row + 1]]
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
    """Rows as whole numbers −127…127 times a scale, and how long what that leaves out is."""
    for i in range(len(rows)):
        row = rows[i]
        largest = np.float32(0)
        for j in range(len(row)):
            largest = max(largest, abs(row[j]))
        scale = largest / np.float32(127)
        scales[i] = scale
        left = 0.0
        for j in range(len(row)):
            code = np.rint(row[j] / scale) if scale > 0 else np.float32(0)
            codes[i, j] = np.int8(min(max(code, np.float32(-127)), np.float32(127)))
            rest = np.float64(row[j]) - np.float64(scale) * np.float64(codes[i, j])
            left += rest * rest
        residuals[i] = np.sqrt(left)


def multiply_codes(
    codes: NDArray[np.int8],
    scales: Vectors,
    anchors: NDArray[np.int16],
    steps: Vectors,
    products: Vectors,
) -> None:
    """Products of coded rows with coded anchors; sums of whole numbers, so exact up to scaling."""
    for i in range(len(codes)):
        row, scale = codes[i], scales[i]
        for b in range(len(anchors)):
            anchor = anchors[b]
            total = np.int32(0)
            for j in range(len(row)):  # kept in 32 bits: two products in one instruction
                total = np.int32(total + np.int32(np.int16(row[j]) * np.int32(anchor[j])))
            products[b, i] = np.float32(total) * scale * steps[b]
