"""Group commit: one thread writes for many callers, and confirms only what is on disk."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import zip_longest
from typing import Any, TypeVar

import sqlalchemy as sa

from nextquery import tracing
from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.service.log.clock import Clock
from nextquery.service.log.schema import decisions
from nextquery.service.log.store import Store
from nextquery.service.log.transaction import Transaction, Write

_log = logging.getLogger("nextquery.service")
_MOST = 256  # writes in one transaction
_WAITING = 20_000  # writes that may wait for the database
_MARKS_S = 0.1  # how long a delivery mark may wait for the next transaction
Result = TypeVar("Result")
Batch = list[tuple[Write[Any], "Future[Any]"]]


class Writer:
    """Appends to the log, many writes per transaction.

    A future is resolved only after the commit. If the database fails, every write of that
    transaction fails with `StoreUnavailable` and nothing of it was written. Later writes are
    tried after a pause that grows to one second. No error ends the thread.
    """

    def __init__(self, store: Store, clock: Clock, *, written: Callable[[], None]) -> None:
        self.store, self.clock, self._written = store, clock, written
        self.failures = 0  # in a row
        self._writes: deque[tuple[Write[Any], Future[Any]]] = deque()
        self._marks: dict[str, None] = {}
        self._in_hand: Batch = []  # what the current transaction writes
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="nextquery-writer", daemon=True)
        self._thread.start()

    def submit(self, write: Write[Result]) -> "Future[Result]":
        """Write with the next transaction."""
        return self.submit_many([write])[0]

    def submit_many(
        self, writes: Sequence[Write[Result]], asked: Sequence[object] = ()
    ) -> "list[Future[Result]]":
        """Write with the next transaction, all together if there is room.

        `asked` are the requests that they are for, if this is not the thread of one request.
        """
        futures: list[Future[Result]] = [Future() for _ in writes]
        for future, request in zip_longest(futures, asked):
            future.set_running_or_notify_cancel()  # an event in the log cannot be cancelled
            tracing.attach(future, request)
        with self._changed:
            if not self._closing and len(self._writes) < _WAITING:
                self._writes.extend(zip(writes, futures, strict=True))
                self._changed.notify()
                return futures
            why = "is closing" if self._closing else "is waiting for the database"
        for future in futures:
            future.set_exception(
                StoreUnavailable(f"this worker {why}. Nothing was written. Try again.")
            )
        return futures

    def mark_delivered(self, decision_id: str) -> None:
        """Record that an answer was sent, with the next transaction or within 100 ms."""
        with self._changed:
            self._marks[decision_id] = None
            self._changed.notify()

    @property
    def waiting(self) -> int:
        """The number of writes that are waiting."""
        return len(self._writes)

    def close(self, *, within_s: float = 30.0) -> None:
        """Write everything that is waiting, then stop.

        What the database does not take within `within_s` seconds is given up: its callers get an
        error, and the log says how much it was. Nothing of it had been confirmed.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(within_s)
        if not self._thread.is_alive():
            return
        with self._changed:
            waiting, marks = [future for _, future in self._writes], len(self._marks)
            in_hand = [future for _, future in self._in_hand]
            self._writes.clear()
            self._marks.clear()
        closing = "this worker is closing, and the database does not answer"
        for future in waiting:
            _settle(future, StoreUnavailable(f"{closing}. Nothing was written. Try again."))
        for future in in_hand:
            _settle(
                future,
                StoreUnavailable(
                    f"{closing}: whether this was written is unknown. Try again with the same "
                    "request_id; what was written is not written twice."
                ),
            )
        _log.warning(
            "closing: the database did not answer within %g s; gave up %d waiting writes, %d that "
            "it may or may not have written, and %d delivery marks, none of them confirmed",
            within_s,
            len(waiting),
            len(in_hand),
            marks,
        )

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._writes and not self._closing:
                    timed_out = not self._changed.wait(_MARKS_S if self._marks else None)
                    if timed_out and self._marks:
                        break
                count = min(len(self._writes), _MOST)
                batch = [self._writes.popleft() for _ in range(count)]
                marks, self._marks = list(self._marks), {}
                self._in_hand = batch
                if not batch and not marks and self._closing:
                    return
            try:
                self._commit(batch, marks)
            except Exception as error:  # everyone after this batch still needs the thread
                _log.exception("the writer met an unexpected error")
                for _, future in batch:
                    _settle(future, error)
            if self.failures and not self._closing:
                time.sleep(min(0.05 * 2 ** min(self.failures, 5), 1.0))

    def _commit(self, batch: Batch, marks: list[str]) -> None:
        """Run one transaction, then pass its results and errors to the futures."""
        try:
            with tracing.step("commit", (future for _, future in batch), together=len(batch)):
                results = self._transaction([write for write, _ in batch], marks)
        except StoreUnavailable as error:
            self.failures += 1
            with self._changed:
                if not self._closing:
                    self._marks = {**dict.fromkeys(marks), **self._marks}
            for _, future in batch:
                _settle(future, error)
            return
        except Exception as error:
            self._commit_apart(batch, marks, error)
            return
        self.failures = 0
        if batch:
            self._written()
        for (_, future), result in zip(batch, results, strict=True):
            _settle(future, result)

    def _commit_apart(self, batch: Batch, marks: list[str], error: Exception) -> None:
        """Find out what fails: one write or mark must not take the others with it."""
        if marks and batch:
            self._commit([], marks)
            self._commit(batch, [])
        elif len(batch) == 1:
            _settle(batch[0][1], error)
        elif batch:
            for single in batch:
                self._commit([single], [])
        elif len(marks) == 1:  # without its mark a slate teaches nothing, which is safe
            _log.error("could not record that decision %a was delivered", marks[0], exc_info=error)
        else:
            for mark in marks:
                self._commit([], [mark])

    def _transaction(self, writes: list[Write[Any]], marks: list[str]) -> list[Any]:
        results: list[Any] = []
        with self.store.writing() as connection:
            # The lock of the log comes first: two workers that lock decisions in another order
            # would wait for each other.
            transaction = Transaction(connection, self.clock)
            if marks:  # before the writes, so that a slate that was sent is not undelivered
                delivered = sa.update(decisions).where(decisions.c.id == sa.bindparam("decision"))
                connection.execute(
                    delivered.values(delivered=True), [{"decision": id} for id in marks]
                )
            if writes:
                transaction.fetch(write.needs() for write in writes)
                for write in writes:
                    try:
                        results.append(write.write(transaction))
                    except NextqueryError as error:
                        results.append(error)
                transaction.flush()
        return results


def _settle(future: "Future[Any]", result: Any) -> None:
    with suppress(InvalidStateError):  # `close` gave it up before
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)
