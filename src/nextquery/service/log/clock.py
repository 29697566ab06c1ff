"""A clock that never runs backwards."""

import threading
import time
from collections.abc import Callable


class Clock:
    """Unix time that starts at the machine's clock and then follows the monotonic clock.

    Setting the machine's clock while the service runs has no effect. If the log is already ahead
    (`at_least`), time continues from there.

    >>> clock = Clock(wall=lambda: 100.0, monotonic=lambda: 7.0)
    >>> clock.now(), clock.at_least(130.0), clock.now()
    (100.0, 130.0, 130.0)
    """

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return the seconds since 1970."""
        return self._offset + self._monotonic()

    def at_least(self, moment: float) -> float:
        """Return the time, which from now on is never earlier than `moment`."""
        with self._lock:
            self._offset += max(0.0, moment - self.now())
            return max(moment, self.now())
