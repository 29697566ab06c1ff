"""Batching: requests that arrive together are answered together, in two halves."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

_log = logging.getLogger("nextquery.service")
Job = TypeVar("Job")
Rest = Callable[[], None]
"""The second half of the answer to a batch."""


class Batcher(Generic[Job]):
    """Collects jobs for a moment and answers them as one batch, in its own thread.

    A single job is answered at once. It waits, for at most `gather_s`, only if no other waited
    before it and while more requests are in flight than the batch contains: those that came during
    the last batch are enough for one. `answer` returns what is left to do for the batch. If
    others wait by then, a second thread does that while the next batch begins. `idle` is set while
    nothing waits or is being answered.
    """

    def __init__(
        self,
        answer: Callable[[list[Job]], Rest],
        *,
        most: int,
        gather_s: float,
        in_flight: Callable[[], int],
    ) -> None:
        self._answer, self._most, self._gather_s = answer, most, gather_s
        self._in_flight = in_flight
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing, self._stop = False, False
        self._in_hand: list[Job] = []
        self.idle = threading.Event()
        self._rests: SimpleQueue[Rest | None] = SimpleQueue()
        self._left = 0  # batches whose second half the second thread has
        self._threads = [
            threading.Thread(target=run, name=f"nextquery-{name}", daemon=True)
            for name, run in (("batcher", self._run), ("finisher", self._finish))
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job, *, first: bool = False) -> bool:
        """Add a job; return False if closing. `first` puts it before the others."""
        with self._changed:
            if self._stop or (self._closing and not first):
                return False
            (self._jobs.appendleft if first else self._jobs.append)(job)
            self.idle.clear()
            self._changed.notify()
        return True

    def close(self, *, busy: Callable[[], bool], within_s: float = 30.0) -> list[Job]:
        """Accept no new jobs, answer those that are waiting or come back, then stop.

        Returns the jobs that were not passed to `answer`, or not answered, in `within_s` seconds.
        """
        end = time.monotonic() + within_s
        with self._changed:
            self._closing = True
        while busy() and time.monotonic() < end:
            time.sleep(0.002)
        with self._changed:
            self._stop = True
            left = list(self._jobs)
            self._jobs.clear()
            self._changed.notify()
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        alive = any(thread.is_alive() for thread in self._threads)
        return [*self._in_hand, *left] if alive else left

    def _run(self) -> None:
        while True:
            with self._changed:
                waited = not self._jobs
                while not self._jobs and not self._stop:
                    if not self._left:
                        self.idle.set()
                    self._changed.wait()
                if not self._jobs:
                    self._rests.put(None)
                    return
                deadline = time.monotonic() + self._gather_s
                while waited and len(self._jobs) < min(self._most, self._in_flight()):
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        break
                count = min(self._most, len(self._jobs))
                batch = [self._jobs.popleft() for _ in range(count)]
                self._in_hand = batch
            rest = self._answer(batch)
            with self._changed:
                others = bool(self._jobs) and not self._left
                self._left += others
            if others:
                self._rests.put(rest)
            else:
                rest()

    def _finish(self) -> None:
        while (rest := self._rests.get()) is not None:
            try:
                rest()
            except Exception:  # everyone after this batch still needs the thread
                _log.exception("the second half of a batch failed")
            with self._changed:
                self._left -= 1
                self._changed.notify()
