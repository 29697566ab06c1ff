"""How the weight of what was learnt halves with time."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number
from nextquery.errors import InvalidInput

DAY = 86400.0
_NUMBERS = (int, float, np.integer, np.floating)


class HalfLife:
    """An example from time t weighs 2^(−(now − t)/h), with `now` the latest time seen.

    Times are Unix times in seconds, h is in days. Nothing fades without a half-life, or before the
    first time is seen: what was learnt until then counts as learnt at that time. `now` never goes
    back, so a single time far in the future makes everything else weigh nothing.

    >>> fading = HalfLife(2.0)
    >>> fading.move_to(0.0), fading.move_to(4 * DAY)  # what is left of earlier examples
    (1.0, 0.25)
    >>> fading.weight(2 * DAY), fading.weight(None), fading.move_to(3 * DAY)
    (0.5, 1.0, 1.0)
    """

    def __init__(self, days: float | None = None) -> None:
        self.days = days
        self.now: float | None = None

    def move_to(self, at: float | None) -> float:
        """Move `now` to a later time; return the share that is left of everything learnt before."""
        if self.days is None or at is None or (self.now is not None and at <= self.now):
            return 1.0
        left = self.left_at(at)
        self.now = at
        return left

    def left_at(self, at: float | None) -> float:
        """Return the share that a later time would leave of everything learnt."""
        if self.days is None or at is None or self.now is None or at <= self.now:
            return 1.0
        return float(2.0 ** (-(at - self.now) / (self.days * DAY)))

    def weight(self, at: float | None) -> float:
        """Return the weight of an example from time `at`, not later than now; None means now."""
        if self.days is None or at is None or self.now is None:
            return 1.0
        return float(2.0 ** (-(self.now - at) / (self.days * DAY)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the time as an array; nothing if no time was seen."""
        return {} if self.now is None else {"now": np.array(self.now)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the time from a `state`."""
        self.now = float(state["now"]) if "now" in state else None


def latest(*clocks: HalfLife) -> float | None:
    """Return the latest time that any of them has seen; None if there is none."""
    return max((clock.now for clock in clocks if clock.now is not None), default=None)


def checked_days(days: float | None) -> float | None:
    """Return a half-life in days, or None."""
    return None if days is None else number(days, "half_life", low=0, above_low=True)


def checked_time(at: Any) -> float | None:
    """Return `at` as a number of seconds, or None."""
    if at is None:
        return None
    if not isinstance(at, _NUMBERS) or not math.isfinite(at):
        raise InvalidInput(f"at must be a Unix time in seconds, or None for now; received {at!r}.")
    return float(at)
