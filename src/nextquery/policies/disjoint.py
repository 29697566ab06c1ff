"""One ridge model per arm whose only context is the arm's own unit vector, in closed form."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class DisjointRidge:
    """What the published LinUCB keeps per arm: how often it was played, and its rewards.

    With n plays, reward sum r and ‖x‖² = 1, the model A = λI + n·xxᵀ, b = r·x collapses to mean
    r/(λ + n) and width 1/√(λ + n). An arm costs nothing until it is played.

    >>> model = DisjointRidge(1.0)
    >>> model.replace(7, None, 1.0)
    >>> model.means_and_widths(np.array([7, 8]))[0].tolist()
    [0.5, 0.0]
    """

    def __init__(self, ridge: float) -> None:
        self.ridge = ridge
        self._played: dict[int, tuple[int, float]] = {}

    def means_and_widths(self, arms: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The estimate of every arm, and how little is known of it."""
        nothing = (0, 0.0)
        plays, rewards = np.array([self._played.get(arm, nothing) for arm in arms.tolist()]).T
        weight = self.ridge + plays
        return rewards / weight, 1.0 / np.sqrt(weight)

    def replace(self, arm: int, old: float | None, new: float | None) -> None:
        """Put the reward `new` of a play in the place of `old`; None: not observed."""
        plays, rewards = self._played.get(arm, (0, 0.0))
        plays += (new is not None) - (old is not None)
        self._played[arm] = (plays, rewards + (new or 0.0) - (old or 0.0))

    def state(self) -> dict[str, NDArray[Any]]:
        """The model as arrays, in order of arm."""
        played = sorted(self._played.items())
        return {
            "arms": np.array([arm for arm, _ in played], np.int64),
            "plays": np.array([plays for _, (plays, _) in played], np.int64),
            "rewards": np.array([rewards for _, (_, rewards) in played], np.float64),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from `state`."""
        plays, rewards = state["plays"].tolist(), state["rewards"].tolist()
        counts = zip(plays, rewards, strict=True)
        self._played = dict(zip(state["arms"].tolist(), counts, strict=True))
