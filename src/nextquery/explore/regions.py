"""Regions: relevant rows that belong together, because no irrelevant row is between them.

A region grows from the relevant row with the nearest others. It takes in further relevant rows, the
nearest first, as long as the smallest box around them contains no irrelevant row. Then the next
region grows from the rows that are left.
"""

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.space import Flags, Rows, distances

_CROWD = 6  # a region starts where this many relevant rows are nearest to each other
Points = NDArray[np.float32]


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
    left = np.ones(len(relevant), bool)
    found = []
    while left.any():
        start = int(np.flatnonzero(left)[crowd[left].argmin()])
        order = [int(i) for i in np.argsort(apart[start], kind="stable") if left[i] and i != start]
        members = _grown(relevant, irrelevant, is_category, start, order)
        left[members] = False
        found.append(np.array(sorted(members)))
    return found


def _grown(
    relevant: Points, irrelevant: Points, is_category: Flags, start: int, order: list[int]
) -> list[int]:
    """Return the members of the region that starts at one point, tried in an order."""
    numbers, categories = np.flatnonzero(~is_category), np.flatnonzero(is_category)
    ranges = irrelevant[:, numbers]
    low = high = relevant[start, numbers]
    shares = {int(c): irrelevant[:, c] == relevant[start, c] for c in categories}
    members = [start]
    for each in order:
        point = relevant[each]
        lower, higher = np.minimum(low, point[numbers]), np.maximum(high, point[numbers])
        within = ((ranges >= lower) & (ranges <= higher)).all(axis=1)
        wider = {c: share | (irrelevant[:, c] == point[c]) for c, share in shares.items()}
        for share in wider.values():
            within &= share
        if not within.any():
            low, high, shares = lower, higher, wider
            members.append(each)
    return members
