"""One ridge model per arm, with the arm's unit vector as its only context, in closed form."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import whole_number

Floats = NDArray[np.float64]


class DisjointRidge:
    """The per-arm state of the published LinUCB: number of plays and sum of rewards.

    With n plays, reward sum r and ‖x‖² = 1, the model A = λI + n·xxᵀ, b = r·x reduces to mean
    r/(λ + n) and width 1/√(λ + n). Two numbers per arm, in arrays up to the largest arm played
    (18 MB for a million arms).

    >>> model = DisjointRidge(1.0)
    >>> model.replace(7, None, 1.0)
    >>> model.means_and_widths(np.array([7, 8]))[0].tolist()
    [0.5, 0.0]
    """

    def __init__(self, ridge: float) -> None:
        self.ridge = ridge
        # The last cell is always 0 and stands for every arm beyond the arrays.
        self._plays, self._rewards = np.zeros(1, np.int64), np.zeros(1)

    def means_and_widths(self, arms: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the mean and the width (uncertainty) of every arm."""
        at = np.minimum(arms, len(self._plays) - 1)
        weight = self.ridge + self._plays[at]
        return self._rewards[at] / weight, 1.0 / np.sqrt(weight)

    def replace(self, arm: int, old: float | None, new: float | None) -> None:
        """Replace the reward `old` of a play with `new`; None means not observed."""
        whole_number(arm, "arm", at_least=0)
        if arm >= len(self._plays) - 1:
            self._extend(max(arm + 2, 2 * len(self._plays)))
        self._plays[arm] += (new is not None) - (old is not None)
        self._rewards[arm] = self._rewards[arm] + (new or 0.0) - (old or 0.0)

    @property
    def updates(self) -> int:
        """The number of plays."""
        return int(self._plays.sum())

    def take_over(self, current: "DisjointRidge", base: "DisjointRidge") -> None:
        """Add what `current` has learnt since it was `base`."""
        cells = max(len(model._plays) for model in (self, current, base)) + 1
        for model in (self, current, base):
            model._extend(cells)
        self._plays += current._plays - base._plays
        since = self._rewards + (current._rewards - base._rewards)
        self._rewards = np.where(self._rewards == base._rewards, current._rewards, since)

    def _extend(self, cells: int) -> None:
        """Extend the arrays; untouched zeros take no memory."""
        plays, rewards = np.zeros(cells, np.int64), np.zeros(cells)
        plays[: len(self._plays)], rewards[: len(self._rewards)] = self._plays, self._rewards
        self._plays, self._rewards = plays, rewards

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the model as arrays, in order of arm."""
        arms = np.flatnonzero((self._plays != 0) | (self._rewards != 0))
        return {"arms": arms, "plays": self._plays[arms], "rewards": self._rewards[arms]}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the model from a `state`."""
        self._plays, self._rewards = np.zeros(1, np.int64), np.zeros(1)
        self._extend(int(state["arms"].max(initial=-1)) + 2)
        self._plays[state["arms"]] = state["plays"]
        self._rewards[state["arms"]] = state["rewards"]
