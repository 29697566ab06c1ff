"""Batches of sessions: padded rows of items, and all that follows what in them."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nextquery.sessions import Ids, Sessions


class Batch(NamedTuple):
    """Sessions as padded rows, on the device.

    Row i of `items` has the session's queries but the last, padded at the end with item 0; `steps`
    flags the others. `targets` are the queries that came next, one for each flag, row by row.
    """

    items: Any
    steps: Any
    targets: Any


def batch_of(sessions: Sessions, which: Ids, *, length: int, device: Any) -> Batch:
    """Return the sessions `which`, each with its newest `length` queries that have a next one.

    >>> made = batch_of(Sessions.of([[5, 6, 7], [8, 9]]), np.array([0, 1]), length=9, device="cpu")
    >>> made.items.tolist(), made.targets.tolist()
    ([[5, 6], [8, 0]], [6, 7, 9])
    """
    places, steps = places_of(sessions, which, length)
    items = np.where(steps, sessions.arms[places], 0)
    targets = sessions.arms[(places + 1)[steps]]
    arrays = (items, steps, targets)
    return Batch(*(torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays))


def places_of(sessions: Sessions, which: Ids, length: int) -> tuple[Ids, NDArray[np.bool_]]:
    """Return where these queries are in the row of all, and which of them are no padding."""
    ends = sessions.offsets[which + 1]
    sizes = np.minimum(sessions.lengths[which] - 1, length)
    width = np.arange(int(sizes.max()))
    steps = width < sizes[:, None]
    return np.where(steps, (ends - 1 - sizes)[:, None] + width, 0), steps


class Shuffled:
    """Which sessions a step reads: all of them once an epoch, in an order drawn for it."""

    def __init__(self, sessions: int, batch: int, seed: int) -> None:
        self._sessions, self._batch, self._seed = sessions, batch, seed
        self.per_epoch = -(-sessions // batch)
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def of_step(self, step: int) -> Ids:
        """Return the numbers of the sessions of a step.

        >>> shuffled = Shuffled(5, 2, seed=0)
        >>> sorted(np.concatenate([shuffled.of_step(step) for step in (3, 4, 5)]).tolist())
        [0, 1, 2, 3, 4]
        """
        epoch, at = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng([self._seed, 8, epoch])
            self._epoch, self._order = epoch, rng.permutation(self._sessions)
        return self._order[at * self._batch : (at + 1) * self._batch]
