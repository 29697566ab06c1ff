"""Results of other threads on their way to the event loop."""

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


class Arrivals:
    """Makes futures of other threads awaitable, and wakes the event loop once for many of them.

    Waking it costs a system call and hands the interpreter from one thread to another. One
    transaction settles dozens of futures.
    """

    def __init__(self) -> None:
        self._arrived: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    def of(self, future: "Future[Result]") -> "asyncio.Future[Result]":
        """Return an awaitable with the result; cancelling it does not cancel the future."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Result] = loop.create_future()

        def arrive(settled: "Future[Result]") -> None:
            self._arrived.append((waiting, settled))
            if not self._woken:
                self._woken = True
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(self._deliver)

        future.add_done_callback(arrive)
        return waiting

    def _deliver(self) -> None:
        self._woken = False  # first, so that whatever arrives from now on wakes the loop again
        while self._arrived:
            waiting, settled = self._arrived.popleft()
            if waiting.done():  # its request timed out
                continue
            if settled.cancelled():
                waiting.cancel()
            elif (error := settled.exception()) is not None:
                waiting.set_exception(error)
            else:
                waiting.set_result(settled.result())
