"""Calls that may wait for the database, in threads of their own.

A database that does not answer would otherwise fill the threads that all requests share, or stop
the event loop. The threads here are few, their callers wait only so long, and a thread that never
returns does not keep the process from ending.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from nextquery.errors import StoreUnavailable

Result = TypeVar("Result")
Job = tuple[Callable[[], Any], "Future[Any]"]


class StoreCalls:
    """Runs calls for a coroutine.

    Parameters
    ----------
    threads : how many calls run at a time.
    most : how many may run and wait; more are refused at once.
    timeout_s : seconds that a caller waits; None means without limit.
    """

    def __init__(
        self, *, threads: int = 8, most: int = 1024, timeout_s: float | None = 10.0
    ) -> None:
        self._most_threads, self._most, self._timeout_s = threads, most, timeout_s
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0  # only the event loop counts

    async def __call__(self, call: Callable[[], Result]) -> Result:
        """Return what `call` returns; raise `StoreUnavailable` if that takes too long."""
        if self._open >= self._most:
            raise StoreUnavailable(
                f"{self._open} calls already wait for the database. Nothing was written. Try again."
            )
        future: Future[Result] = Future()
        self._open += 1
        if len(self._threads) < min(self._most_threads, self._open):
            name = f"nextquery-store-{len(self._threads)}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()
        self._jobs.put((call, future))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise StoreUnavailable(
                f"the database did not answer within {self._timeout_s:g} s. If you changed "
                "something, the change may still be made; repeat it. Try again."
            ) from None
        finally:
            self._open -= 1

    def close(self) -> None:
        """Stop the threads that are idle or come back."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, future = job
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits for it any more
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            del job, call, future
