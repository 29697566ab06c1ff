"""Who uses the cores: many small products side by side, each on one thread of BLAS."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_inside = 0
_before: list[int] = []


@contextmanager
def one_thread_each() -> Iterator[int]:
    """Inside, BLAS uses one thread per call; gives the number of threads it would have used.

    That number is the one users set (``OMP_NUM_THREADS``, `threadpoolctl`). BLAS keeps one limit
    for the whole process, so the first to come sets it and the last to go puts it back.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = [blas.num_threads or 1 for blas in _libraries()]
            _limit([1] * len(_before))
        _inside += 1
        threads = max(_before, default=1)
    try:
        yield threads
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit(_before)


def _limit(threads: Sequence[int]) -> None:
    """Set the threads of every BLAS, whichever of our threads this is.

    `threadpoolctl` lets the first thread that sets a limit set all later ones, and does nothing
    for the others. Our lock decides who may.
    """
    for blas, count in zip(_libraries(), threads, strict=True):
        anyone_may = getattr(blas, "clear_controlling_thread", lambda **_: None)
        anyone_may(force=True)
        blas.set_num_threads(count)
        anyone_may(force=True)


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # looks through the loaded libraries, once

    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found
