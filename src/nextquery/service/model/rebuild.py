"""Rebuild the state from the log alone, and compare it with the newest snapshot."""

from typing import NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.service.log.store import Store
from nextquery.service.model.catalogue import Arms
from nextquery.service.model.learner import Learner, foreseeing, rebuilt
from nextquery.service.model.snapshots import newest_state
from nextquery.service.model.state import State

AGREE = 1e-9
"""The largest difference of two states that count as the same."""


class Rebuilt(NamedTuple):
    """The state at the end of the log, compared with the newest snapshot.

    `snapshot` is the position of that snapshot (0: there is none). `difference` is the largest
    difference of any number in it, infinite if more than numbers differ.
    """

    state: State
    snapshot: int
    difference: float

    @property
    def agrees(self) -> bool:
        """Whether the snapshot equals the log, up to `AGREE`."""
        return self.difference <= AGREE


def rebuild(store: Store, pool: ArmPool | None = None) -> Rebuilt:
    """Read the whole log, comparing with the newest snapshot on the way.

    With the pool, raise `Damaged` where a start of the service would.
    """
    kept = newest_state(store)
    arms = None if pool is None else Arms(pool)
    learner = Learner(store, foreseeing(store, kept.position), arms=arms)
    learner.catch_up(until=kept.position)
    apart = difference(learner.state, kept)
    if arms is not None:
        arms.at(kept)
    learner.catch_up()
    state = rebuilt(store, until=learner.position) if learner.state.stale else learner.state
    return Rebuilt(state, kept.position, apart)


def difference(one: State, other: State) -> float:
    """Return the largest difference of two states; infinite if more than numbers differ.

    >>> difference(State(), State())
    0.0
    """
    ours, theirs = one.arrays(), other.arrays()
    if ours.keys() != theirs.keys():
        return float("inf")
    largest = 0.0
    for name, mine in ours.items():
        yours = theirs[name]
        if mine.shape != yours.shape or mine.dtype.kind != yours.dtype.kind:
            return float("inf")
        if mine.dtype.kind == "f":
            largest = max(largest, float(np.abs(mine - yours).max(initial=0.0)))
        elif not np.array_equal(mine, yours):
            return float("inf")
    return largest
