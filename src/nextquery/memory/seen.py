"""Restrict a pool to the arms asked so far, so that the past does not leak its future."""

from collections.abc import Sequence

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.sessions import Ids


def only_seen(pool: ArmPool, first_seen: Ids, before: Sequence[int]) -> tuple[ArmPool, list[Ids]]:
    """Return the pool of arms known to steps at these (rising) places, and what to hide per step.

    `first_seen` is every arm's first place in the row of sessions. Arms that are unknown to all
    steps are removed from the pool, so that one scan serves every step.

    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> seen, hidden = only_seen(pool, np.array([0, 1, 2]), [1, 2])
    >>> len(seen), [ids.tolist() for ids in hidden]
    (2, [[1], []])
    """
    first, last = before[0], before[-1]
    unseen = np.flatnonzero(first_seen >= last)
    known = pool.copy()
    known.remove(unseen)
    newest = np.flatnonzero((first_seen >= first) & (first_seen < last))
    return known, [newest[first_seen[newest] >= place] for place in before]
