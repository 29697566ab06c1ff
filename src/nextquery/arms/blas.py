"""Who uses the cores: many small products side by side, each on one thread of BLAS."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_inside = 0
_limit: Any = None
_threads = 1


@contextmanager
def one_thread_each() -> Iterator[int]:
    """Inside, BLAS uses one thread per call; gives the number of threads it would have used.

    That number is the one users set (``OMP_NUM_THREADS``, `threadpoolctl`). BLAS keeps one limit
    for the whole process, so the first to come sets it and the last to go puts it back.
    """
    global _inside, _limit, _threads
    with _lock:
        if _inside == 0:
            known = _controller().info()
            _threads = max((blas["num_threads"] for blas in known), default=1)
            _limit = _controller().limit(limits=1)
        _inside += 1
        threads = _threads
    try:
        yield threads
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # looks through the loaded libraries, once

    return ThreadpoolController().select(user_api="blas")
