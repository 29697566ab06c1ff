"""The number of plays of each arm, and the sums of its rewards and of their squares."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import whole_number
from nextquery.policies.disjoint import ROUNDING
from nextquery.policies.packed import Arms

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]


class ArmStatistics:
    """Three numbers per arm, in arrays up to the largest arm played. Their order never matters.

    >>> seen = ArmStatistics()
    >>> seen.replace(7, None, 1.0)
    >>> seen.replace(7, None, 0.0)
    >>> [values.tolist() for values in seen.of(np.array([7, 8]))]  # plays, means, variances
    [[2.0, 0.0], [0.5, 0.0], [0.25, 0.0]]
    """

    def __init__(self) -> None:
        self.updates = 0
        self.cells = np.zeros((3, 1))  # the last column stands for every arm beyond

    def of(self, arms: Ids) -> tuple[Floats, Floats, Floats]:
        """Return the plays, the means and the (biased) variances of some arms; 0 if not played."""
        plays, means = self.plays_and_means(arms)
        squares = self.cells[2].take(self._at(arms))
        return plays, means, np.maximum(squares / np.maximum(plays, 1.0) - means * means, 0.0)

    def plays_and_means(self, arms: Ids) -> tuple[Floats, Floats]:
        """Return the plays and the means of some arms; 0 if not played."""
        at = self._at(arms)
        plays = self.cells[0].take(at)
        return plays, self.cells[1].take(at) / np.maximum(plays, 1.0)

    def _at(self, arms: Ids) -> Ids:
        last = self.cells.shape[1] - 1
        return np.where(arms < 0, last, np.minimum(arms, last))

    @property
    def played(self) -> Ids:
        """The arms that were played, in order of id."""
        return np.flatnonzero(self.cells[0])

    def replace(self, arm: int, old: float | None, new: float | None) -> None:
        """Replace the reward `old` of a play with `new`; None means not observed."""
        whole_number(arm, "arm", at_least=0)
        if arm >= self.cells.shape[1] - 1:
            self._extend(max(arm + 2, 2 * self.cells.shape[1]))
        change = (new is not None) - (old is not None)
        before, after = old or 0.0, new or 0.0
        self.cells[0, arm] += change
        self.cells[1, arm] += after - before
        self.cells[2, arm] += after * after - before * before
        self.updates += change

    def observe(self, failed: Arms, success: int | None, sign: int) -> None:
        """Add a whole step (`sign` 1) or remove it (−1): all failed but one. It is one update.

        >>> seen = ArmStatistics()
        >>> seen.observe(Arms(np.array([7, 8]), 1.0), 8, 1)
        >>> [values.tolist() for values in seen.plays_and_means(np.array([7, 8]))], seen.updates
        ([[1.0, 1.0], [0.0, 1.0]], 1)
        """
        ids = failed.ids[failed.ids >= 0]
        reached = max(int(ids.max(initial=-1)), -1 if success is None else success)
        if reached >= self.cells.shape[1] - 1:
            self._extend(max(reached + 2, 2 * self.cells.shape[1]))
        self.cells[0, ids] += sign * failed.weight
        if success is not None:
            self.cells[1:, success] += sign
        self.updates += sign
        if sign < 0:  # what is only the rounding of plays that were removed is 0
            left = self.cells[:, ids]
            self.cells[:, ids] = np.where(np.abs(left) < ROUNDING, 0.0, left)

    def take_over(self, current: "ArmStatistics", base: "ArmStatistics") -> None:
        """Add what `current` has learnt since it was `base`."""
        width = max(model.cells.shape[1] for model in (self, current, base))
        for model in (self, current, base):
            model._extend(width)
        self.cells += current.cells - base.cells
        self.updates += current.updates - base.updates

    def move_to(self, at: float) -> None:
        """Do nothing: nothing fades."""

    def _extend(self, width: int) -> None:
        wider = np.zeros((3, width))
        wider[:, : self.cells.shape[1]] = self.cells
        self.cells = wider

    def state(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Return the statistics as arrays."""
        arms = np.flatnonzero(self.cells.any(axis=0))
        return {
            f"{prefix}arms": arms,
            f"{prefix}cells": self.cells[:, arms],
            f"{prefix}updates": np.array(self.updates),
        }

    def restore(self, state: Mapping[str, NDArray[Any]], prefix: str = "") -> None:
        """Restore the statistics from a `state`."""
        arms = state[f"{prefix}arms"]
        self.cells = np.zeros((3, int(arms.max(initial=-1)) + 2))
        self.cells[:, arms] = state[f"{prefix}cells"]
        self.updates = int(state[f"{prefix}updates"])
