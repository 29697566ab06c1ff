"""Regions: relevant rows that belong together, because a few columns set them apart.

A region grows from the relevant row with the nearest others. It takes in further relevant rows, the
nearest first, as long as at most three columns of the smallest box around them keep every
irrelevant row out. Then the next region grows from the rows that are left. Last, each region, the
largest first, takes rows of smaller ones in the same way: a row that came too early is put right.
"""

import numpy as np

from nextquery.explore.space import Flags, Hull, Points, Rows, distances, weights

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
