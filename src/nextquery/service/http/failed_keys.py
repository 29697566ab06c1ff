"""Slowing down clients that guess API keys.

Only failures are counted, after a key was looked up, so a valid key is never locked out by
somebody else, not even behind a proxy where all clients share one address. What protects a key is
its 256 random bits; the limits here keep guessing cheap for us and visible to the client.
"""

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

OF_ADDRESS = RateLimitItemPerMinute(100)
OF_ALL = RateLimitItemPerMinute(1000)
"""Failures per client address, and of all clients of a worker; above, the answer is 429."""


class FailedKeys:
    """Counts unknown keys by client address.

    >>> failed = FailedKeys()
    >>> [failed.count("10.0.0.1") for _ in range(100)] == [None] * 100
    True
    >>> 0 < failed.count("10.0.0.1") <= 60, failed.count("10.0.0.2")
    (True, None)
    """

    def __init__(self) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def count(self, address: str) -> int | None:
        """Count a failure; return the seconds to wait if there were too many, else None."""
        for rate, name in ((OF_ALL, "all"), (OF_ADDRESS, f"of {address}")):
            if not self._limiter.hit(rate, name):  # so at most `OF_ALL` addresses are kept
                reset = self._limiter.get_window_stats(rate, name).reset_time
                return max(1, math.ceil(reset - time.time()))
        return None
