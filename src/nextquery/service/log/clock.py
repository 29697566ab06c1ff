"""A clock that never runs backwards, whatever the machine's does."""

import threading
import time
from collections.abc import Callable


class Clock:
    """Unix seconds that begin with the machine's clock and then go on by the monotonic one.

    A machine whose clock is set back or forward while the service runs changes nothing. Where the
    log is ahead already (`at_least`), time goes on from there.

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
        """Seconds since 1970, as far as this service knows."""
        return self._offset + self._monotonic()

    def at_least(self, moment: float) -> float:
        """Now, and from now on not earlier than `moment`."""
        with self._lock:
            self._offset += max(0.0, moment - self.now())
            return max(moment, self.now())
