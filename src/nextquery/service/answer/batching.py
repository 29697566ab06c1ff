"""Batching: requests that arrive together are answered together."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Job = TypeVar("Job")


class Batcher(Generic[Job]):
    """Collects jobs for a moment and answers them as one batch, in its own thread.

    A single job is answered at once. It waits, for at most `gather_s`, only while more requests
    are in flight than the batch contains. `idle` is set while nothing waits or is being answered.
    """

    def __init__(
        self,
        answer: Callable[[list[Job]], None],
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
        self._thread = threading.Thread(target=self._run, name="nextquery-batcher", daemon=True)
        self._thread.start()

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
        self._thread.join(max(0.0, end - time.monotonic()))
        return [*self._in_hand, *left] if self._thread.is_alive() else left

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self._stop:
                    self.idle.set()
                    self._changed.wait()
                if not self._jobs:
                    return
                deadline = time.monotonic() + self._gather_s
                while len(self._jobs) < min(self._most, self._in_flight()):
                    left = deadline - time.monotonic()
                    if left <= 0 or not self._changed.wait(left):
                        break
                count = min(self._most, len(self._jobs))
                batch = [self._jobs.popleft() for _ in range(count)]
                self._in_hand = batch
            self._answer(batch)
