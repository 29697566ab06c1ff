"""One ridge model per arm, with the arm's unit vector as its only context, in closed form."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import whole_number
from nextquery.policies.choice import Choice
from nextquery.policies.half_life import HalfLife, latest
from nextquery.policies.packed import Arms

Floats = NDArray[np.float64]

ROUNDING = 1e-12
"""A play that counts less than this share of one that was removed is rounding."""

_LARGEST_UNIT = 2.0**60


class DisjointRidge:
    """The per-arm state of the published LinUCB: number of plays and sum of rewards.

    With n plays, reward sum r and ‖x‖² = 1, the model A = λI + n·xxᵀ, b = r·x reduces to mean
    r/(λ + n) and width 1/√(λ + n). Two numbers per arm, in arrays up to the largest arm played
    (18 MB for a million arms).

    With a `half_life` in days, a play counts w ≤ 1 times (see `HalfLife`). Time does not touch the
    arrays: they are in units in which a play of the past keeps its number and a play of now counts
    ever more.

    >>> model = DisjointRidge(1.0)
    >>> model.replace(7, None, 1.0)
    >>> model.means_and_widths(np.array([7, 8]))[0].tolist()
    [0.5, 0.0]
    """

    def __init__(self, ridge: float, *, half_life: float | None = None) -> None:
        self.ridge, self.clock = ridge, HalfLife(half_life)
        self.updates = 0
        # The last cell is always 0 and stands for every arm beyond the arrays.
        self._plays, self._rewards = np.zeros(1), np.zeros(1)
        self._unit = 1.0  # a play of now, in the arrays

    def means_and_widths(self, arms: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the mean and the width (uncertainty) of every arm."""
        at = np.minimum(arms, len(self._plays) - 1)
        weight = self.ridge + self._plays[at] / self._unit
        return self._rewards[at] / self._unit / weight, 1.0 / np.sqrt(weight)

    def replace(
        self, arm: int, old: float | None, new: float | None, *, at: float | None = None
    ) -> None:
        """Replace the reward `old` of a play with `new`; None means not observed."""
        whole_number(arm, "arm", at_least=0)
        self._reach(arm)
        unit, plays = self._unit_of(at), (new is not None) - (old is not None)
        self._plays[arm] += unit * plays
        self._rewards[arm] = self._rewards[arm] + unit * (new or 0.0) - unit * (old or 0.0)
        self.updates += plays
        if plays < 0 and self.clock.days is not None:
            self._tidy(np.array([arm]), unit)

    def observe(
        self, failed: Arms, success: int | None, *, sign: int = 1, at: float | None = None
    ) -> None:
        """Add a whole step: a play of every candidate, one of which may have succeeded.

        ``sign=-1`` removes it. It counts as one update.

        >>> model = DisjointRidge(1.0)
        >>> model.observe(Arms(np.array([7, 8]), 1.0), success=8)
        >>> model.means_and_widths(np.array([7, 8, 9]))[0].tolist(), model.updates
        ([0.0, 0.5, 0.0], 1)
        """
        self._reach(max(int(failed.ids.max()), success or 0))
        unit = sign * self._unit_of(at)
        self._plays[failed.ids] += unit * failed.weight
        if success is not None:
            self._rewards[success] += unit
        self.updates += sign
        if sign < 0:
            self._tidy(failed.ids, -unit)

    def check_step(self, failed: Arms, success: Choice | None) -> None:
        """Check what `observe` would learn, before anything changes."""
        if success is not None:
            whole_number(success.arm, "arm", at_least=0)

    def take_over(self, current: "DisjointRidge", base: "DisjointRidge") -> None:
        """Add what `current` has learnt since it was `base`.

        With half-lives, all three are taken as they are at the latest time that any has seen.
        """
        cells = max(len(model._plays) for model in (self, current, base)) + 1
        for model in (self, current, base):
            model._extend(cells)
        now = latest(self.clock, current.clock, base.clock)
        self._unit_of(now)
        (plays, rewards), (base_plays, base_rewards) = (
            model._in_units(self._unit, now) for model in (current, base)
        )
        self._plays += plays - base_plays
        since = self._rewards + (rewards - base_rewards)
        self._rewards = np.where(self._rewards == base_rewards, rewards, since)
        self.updates += current.updates - base.updates

    def move_to(self, at: float) -> None:
        """Let earlier plays fade to a later time."""
        self._unit_of(at)

    def _unit_of(self, at: float | None) -> float:
        """Move on to a time, if it is later than now; return a play of that time in the arrays."""
        left = self.clock.move_to(at)
        if left < 1.0 / _LARGEST_UNIT:  # nothing before then counts any more
            self._plays[:], self._rewards[:], self._unit = 0.0, 0.0, 1.0
        elif left < 1.0:
            self._unit /= left
            if self._unit > _LARGEST_UNIT:  # dividing by a power of 2 rounds nothing
                self._plays /= _LARGEST_UNIT
                self._rewards /= _LARGEST_UNIT
                self._unit /= _LARGEST_UNIT
        return self._unit * self.clock.weight(at)

    def _tidy(self, arms: NDArray[np.int64], removed: float) -> None:
        """Set what is only the rounding of plays that were removed to 0."""
        for values in (self._plays, self._rewards):
            values[arms] = np.where(np.abs(values[arms]) <= ROUNDING * removed, 0.0, values[arms])

    def _in_units(self, unit: float, now: float | None) -> tuple[Floats, Floats]:
        """Return plays and rewards as they are at a later time, in units of another model."""
        scale = unit / self._unit * self.clock.left_at(now)
        return scale * self._plays, scale * self._rewards

    def _reach(self, arm: int) -> None:
        if arm >= len(self._plays) - 1:
            self._extend(max(arm + 2, 2 * len(self._plays)))

    def _extend(self, cells: int) -> None:
        """Extend the arrays; untouched zeros take no memory."""
        plays, rewards = np.zeros(cells), np.zeros(cells)
        plays[: len(self._plays)], rewards[: len(self._rewards)] = self._plays, self._rewards
        self._plays, self._rewards = plays, rewards

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the model as arrays, in order of arm. Without more, each play is an update."""
        arms = np.flatnonzero((self._plays != 0) | (self._rewards != 0))
        plays, rewards = self._plays[arms], self._rewards[arms]
        whole = self.clock.days is None and not (plays % 1).any()
        state = {"arms": arms, "plays": plays.astype(np.int64) if whole else plays}
        state["rewards"] = rewards
        if not whole or self.updates != plays.sum():
            state["updates"] = np.array(self.updates)
        if self.clock.days is not None:
            state["unit"] = np.array(self._unit)
        return {**state, **self.clock.state()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the model from a `state`."""
        self._plays, self._rewards = np.zeros(1), np.zeros(1)
        self._extend(int(state["arms"].max(initial=-1)) + 2)
        self._plays[state["arms"]] = state["plays"]
        self._rewards[state["arms"]] = state["rewards"]
        self.updates = int(state.get("updates", state["plays"].sum()))
        self._unit = float(state.get("unit", 1.0))
        self.clock.restore(state)
