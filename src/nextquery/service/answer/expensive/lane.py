"""The lane of expensive requests: maps, simulations and exports let recommendations go first.

They run in one thread of their own, in short steps. Before each step the thread waits until no
recommendation is being answered, but at most `PATIENCE_S`, so that it comes forward under load too.
A recommendation is then delayed by one step at most, however many expensive requests wait.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from nextquery.errors import StoreUnavailable

PATIENCE_S = 0.05
_MOST = 64  # steps that may wait

Answer = TypeVar("Answer")


class Lane:
    """Runs steps one by one, each after the recommendations that wait.

    Parameters
    ----------
    idle : set while no recommendation is being answered.
    most : number of steps that may wait; further ones are refused.
    """

    def __init__(self, idle: threading.Event, *, most: int = _MOST) -> None:
        self._idle, self._most = idle, most
        self._steps: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="nextquery-lane", daemon=True)
        self._thread.start()

    def submit(self, step: Callable[[], Answer], *, always: bool = False) -> "Future[Answer]":
        """Run a step; its future holds the result.

        Parameters
        ----------
        step : takes milliseconds; longer work is many steps.
        always : accept the step even if too many wait: it ends or continues accepted work.
        """
        future: Future[Answer] = Future()
        with self._changed:
            if self._closing:
                raise StoreUnavailable("this worker is closing. Try again.")
            if not always:
                self.expect_room()
            self._steps.append((future, step))
            self._changed.notify()
        return future

    def expect_room(self) -> None:
        """Raise an error if too many steps wait."""
        if len(self._steps) >= self._most:
            raise StoreUnavailable(
                f"{len(self._steps)} maps, examples, simulations and exports are waiting. Try "
                "again in a second."
            )

    def close(self, *, within_s: float | None = None) -> None:
        """Finish the current step, drop the others and stop the thread.

        A step that still waits for the database after `within_s` seconds is left behind.
        """
        with self._changed:
            self._closing = True
            dropped = [future for future, _ in self._steps]
            self._steps.clear()
            self._changed.notify()
        for future in dropped:
            if future.set_running_or_notify_cancel():
                future.set_exception(StoreUnavailable("this worker is closing. Try again."))
        if self._thread is not threading.current_thread():
            self._thread.join(within_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._steps and not self._closing:
                    self._changed.wait()
                if self._closing:
                    return
                future, step = self._steps.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            self._idle.wait(PATIENCE_S)
            try:
                future.set_result(step())
            except BaseException as error:  # the caller must get an answer
                future.set_exception(error)
