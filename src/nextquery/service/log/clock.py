"""A clock that keeps the order of the log, and that a wrong date cannot lead astray for good."""

import threading
import time
from collections.abc import Callable

AHEAD_S = 3600.0
"""Seconds that the log's clock may be ahead of the machine's; more is somebody's wrong date."""
_PLAUSIBLE = 1_735_689_600.0  # 2025-01-01: a machine whose clock says less has lost its date
_LAST = 1e11  # about the year 5000


def is_time(value: object) -> bool:
    """Whether a stored value can be the time of an event, in seconds since 1970.

    >>> is_time(1.8e9), is_time(float("inf")), is_time("noon")
    (True, False, False)
    """
    return isinstance(value, float) and 0.0 <= value < _LAST


class Clock:
    """Unix time that starts at the machine's clock and then follows the monotonic clock.

    Setting the machine's clock back by less than an hour has no effect, nor has setting it ahead.
    If the log is already ahead (`at_least`), time continues from there, but never more than
    `AHEAD_S` ahead of the machine's clock: one process with a wrong date would otherwise put all
    later events into that year. Positions keep the order then; times may go back once.

    >>> clock = Clock(wall=lambda: 100.0, monotonic=lambda: 7.0)
    >>> clock.now(), clock.at_least(130.0), clock.now()
    (100.0, 130.0, 130.0)
    >>> today, year_2100 = 1.8e9, 4.1e9
    >>> Clock(wall=lambda: today, monotonic=lambda: 7.0).at_least(year_2100) == today
    True
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return the seconds since 1970."""
        return self._offset + self._monotonic()

    def at_least(self, moment: float) -> float:
        """Return the time, from now on never earlier than `moment` if that can be right."""
        with self._lock:
            wall = self._wall()
            if wall > _PLAUSIBLE and self.now() > wall + AHEAD_S:
                self._offset = wall - self._monotonic()  # this process started with a wrong date
            if wall > _PLAUSIBLE and moment > wall + AHEAD_S:
                return self.now()
            self._offset += max(0.0, moment - self.now())
            return max(moment, self.now())
