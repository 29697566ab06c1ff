"""Results of other threads: each reaches its caller, and one wake-up brings many."""

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from nextquery.service.engine.handler import Arrivals


def running() -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def test_every_caller_gets_their_own_result_or_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        arrivals, loop = Arrivals(), asyncio.get_running_loop()
        futures = [running() for _ in range(50)]
        waiting = [arrivals.of(future) for future in futures]
        woken: list[object] = []
        wake = loop.call_soon_threadsafe

        def counted(*args: Any, **more: Any) -> asyncio.Handle:
            woken.append(args)
            return wake(*args, **more)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)

        def settle() -> None:
            for number, future in enumerate(futures):
                if number % 7 == 0:
                    future.set_exception(ValueError(str(number)))
                else:
                    future.set_result(number)

        settle()  # all before the loop can run
        assert len(woken) == 1
        results = await asyncio.gather(*waiting, return_exceptions=True)
        for number, result in enumerate(results):
            assert str(result) == str(number)
            assert isinstance(result, ValueError) == (number % 7 == 0)
        later = running()
        again = arrivals.of(later)
        later.set_result("later")  # wakes the loop again
        assert await again == "later"

    asyncio.run(main())


def test_a_caller_who_left_changes_nothing() -> None:
    async def main() -> None:
        arrivals, future = Arrivals(), running()
        waiting = arrivals.of(future)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await waiting
        assert not future.cancelled()
        future.set_result(1)
        await asyncio.sleep(0)
        assert future.result() == 1

    asyncio.run(main())


def test_a_result_after_the_loop_closed_is_dropped() -> None:
    future = running()

    async def main() -> None:
        Arrivals().of(future)

    asyncio.run(main())
    future.set_result(1)
    assert future.result() == 1
