"""Only what had been asked by then: a past that does not know its future."""

from collections.abc import Sequence

import numpy as np

from nextquery.arms.pool import ArmPool
from nextquery.sessions import Ids


def only_seen(pool: ArmPool, first_seen: Ids, before: Sequence[int]) -> tuple[ArmPool, list[Ids]]:
    """The pool of the arms that steps at these (rising) places may know, and what each must not.

    `first_seen` is every arm's first place in the row of sessions. What no step may know is
    removed for all of them, so that one scan serves them all.

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
