"""Limit BLAS to one thread per call, so that many small products can run in parallel."""

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
    """Limit BLAS to one thread per call, and yield the number of threads it would have used.

    You set that number with ``OMP_NUM_THREADS`` or `threadpoolctl`. BLAS has one limit for the
    whole process, so the first thread to enter sets it and the last to leave restores it.
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
    """Set the number of threads of every BLAS library, from any thread.

    `threadpoolctl` lets only the first thread that sets a limit set later ones, and ignores the
    others. Here, the lock decides instead.
    """
    for blas, count in zip(_libraries(), threads, strict=True):
        release_control = getattr(blas, "clear_controlling_thread", lambda **_: None)
        release_control(force=True)
        blas.set_num_threads(count)
        release_control(force=True)


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # inspects the loaded libraries, once

    controllers: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return controllers
