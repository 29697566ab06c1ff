"""During a scan, BLAS uses one thread per call, on any thread; then its limit is restored."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import nextquery as nq
from nextquery.arms import scan
from nextquery.arms.scan import one_thread_each


def blas_threads() -> int:
    """Return the threads of numpy's BLAS, which scans use (scipy has another one)."""
    libraries = [blas for blas in threadpool_info() if blas["user_api"] == "blas"]
    numpys = [blas for blas in libraries if "numpy" in blas["filepath"]]
    return max(int(blas["num_threads"]) for blas in numpys or libraries)


def test_the_limit_holds_in_every_thread_and_ends() -> None:
    def inside() -> tuple[int, int]:
        with one_thread_each() as threads:
            return threads, blas_threads()

    with threadpool_limits(3):
        seen = [inside()]
        for _ in range(3):  # live threads, each the first to enter and the last to leave
            with ThreadPoolExecutor(1) as other:
                seen += [other.submit(inside).result(), inside()]
        assert seen == [(3, 1)] * 7
        assert blas_threads() == 3


def test_the_first_to_enter_need_not_be_the_last_to_leave() -> None:
    first_left, second_entered = threading.Event(), threading.Event()
    counts = []

    def first() -> None:
        with one_thread_each():
            assert second_entered.wait(30)
        first_left.set()

    def second() -> None:
        with one_thread_each() as threads:
            second_entered.set()
            assert first_left.wait(30)
            counts.append((threads, blas_threads()))

    def both() -> None:
        with ThreadPoolExecutor(2) as threads:
            for task in [threads.submit(first), threads.submit(second)]:
                task.result()

    with threadpool_limits(3):
        both()
        assert counts == [(3, 1)]
        assert blas_threads() == 3


def test_a_scan_multiplies_on_one_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, multiply = set[int](), scan._Chunk._multiply

    def watched(*args: object) -> None:
        seen.add(blas_threads())
        multiply(*args)  # type: ignore[arg-type]

    pool = nq.ArmPool.from_vectors([str(i) for i in range(50)], np.eye(50))
    monkeypatch.setattr(scan._Chunk, "_multiply", watched)
    with threadpool_limits(3), ThreadPoolExecutor(1) as other:
        pool.nearest(np.eye(50), 3)  # this thread was first
        other.submit(pool.nearest, np.eye(50), 3).result()
    assert seen == {1}
