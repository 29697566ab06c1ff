"""The model made again from the log alone, and held against the one that the service left."""

from typing import NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.errors import InvalidInput
from nextquery.service.arrays import Arrays
from nextquery.service.catalogue import fingerprint
from nextquery.service.learner import newest_state, rebuilt, save_snapshot
from nextquery.service.store import Store

ALLOWED = 1e-9


class Rebuilt(NamedTuple):
    """What a rebuild found."""

    position: int  #: how far the log goes
    snapshot: int | None  #: position of the newest sound snapshot; None: there is none
    difference: float  #: largest difference of any number at the snapshot's position


def rebuild(store: Store, pool: ArmPool, *, save: bool = False) -> Rebuilt:
    """Recompute the state from the log and compare it with the newest snapshot.

    Parameters
    ----------
    store : the log.
    pool : the pool it was begun with.
    save : whether the recomputed state becomes the newest snapshot.
    """
    live = newest_state(store)
    from_log = rebuilt(store)
    if from_log.position == 0:
        raise InvalidInput(f"{store.name} holds no event. Serve it first: nextquery serve POOL")
    if from_log.meta["pool"] != fingerprint(pool):
        raise InvalidInput(f"{store.name} was begun with another pool. Name that one.")
    difference = 0.0
    if live.position:
        then = rebuilt(store, until=live.position)
        difference = apart(then.arrays(), live.arrays())
    if save:
        save_snapshot(store, from_log.position, from_log.arrays(), keep=1)
    return Rebuilt(from_log.position, live.position or None, difference)


def apart(left: Arrays, right: Arrays) -> float:
    """The largest difference between numbers of the same name; infinite where more differs.

    >>> apart({"a": np.array([1.0, 2.0])}, {"a": np.array([1.0, 2.5])})
    0.5
    >>> apart({"a": np.zeros(2)}, {"a": np.zeros(3)})
    inf
    """
    if left.keys() != right.keys():
        return float("inf")
    worst = 0.0
    for name, one in left.items():
        other = right[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            return float("inf")
        if one.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(one, other) else float("inf"))
        elif one.size:
            worst = max(worst, float(np.max(np.abs(one - other))))
    return worst
