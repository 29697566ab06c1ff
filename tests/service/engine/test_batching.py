"""Batches in two halves: the second of one is done while the first of the next begins."""

import threading
from collections.abc import Callable

from nextquery.service.engine.handler import Batcher
from tests.service.worlds import until


def test_the_second_half_does_not_hold_up_the_next_batch() -> None:
    begun: list[list[int]] = []
    go_on, finished = threading.Event(), list[int]()
    first_begun, others_wait = threading.Event(), threading.Event()

    def answer(batch: list[int]) -> Callable[[], None]:
        begun.append(batch)
        first_begun.set()
        others_wait.wait()

        def rest() -> None:
            if batch == [1]:
                go_on.wait()
            finished.extend(batch)

        return rest

    batcher = Batcher(answer, most=8, gather_s=0.0, in_flight=lambda: 1)
    batcher.submit(1)
    first_begun.wait()
    batcher.submit(2)
    batcher.submit(3)
    others_wait.set()
    assert until(lambda: finished == [2, 3])  # although the first batch is not finished
    assert begun == [[1], [2, 3]]
    assert not batcher.idle.is_set()
    go_on.set()
    assert until(batcher.idle.is_set)
    assert batcher.close(busy=lambda: False) == []
    assert finished == [2, 3, 1]


def test_an_error_in_a_second_half_ends_no_thread() -> None:
    done: list[int] = []
    both, first_begun = threading.Event(), threading.Event()

    def answer(batch: list[int]) -> Callable[[], None]:
        first_begun.set()
        both.wait()

        def rest() -> None:
            if 1 in batch:
                raise RuntimeError("broken")
            done.extend(batch)

        return rest

    batcher = Batcher(answer, most=1, gather_s=0.0, in_flight=lambda: 1)
    batcher.submit(1)
    first_begun.wait()
    batcher.submit(2)
    both.set()
    assert until(lambda: done == [2])
    batcher.submit(3)
    assert until(lambda: done == [2, 3])
    assert batcher.close(busy=lambda: False) == []
    assert not batcher.submit(4)
