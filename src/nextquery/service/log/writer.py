"""Group commit: one thread writes what many ask for, and confirms only what is on the disk."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import sqlalchemy as sa

from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.service.log.clock import Clock
from nextquery.service.log.feedback import Item
from nextquery.service.log.schema import decisions
from nextquery.service.log.store import Store
from nextquery.service.log.transaction import Ledger

_MOST = 256  # items in one transaction
_WAITING = 20_000  # items that may wait for the database
_MARKS_S = 0.1  # how long a mark of delivery may wait for company


class Writer:
    """Appends to the log in transactions of many items.

    A future is resolved only after the commit. When the database fails, every item of that
    transaction fails with `StoreUnavailable` and nothing of it was written; the next ones are
    tried again after a pause that grows to a second.
    """

    def __init__(self, store: Store, clock: Clock, *, written: Callable[[], None]) -> None:
        self.store, self.clock, self._written = store, clock, written
        self.failures = 0  # in a row
        self._items: deque[tuple[Item, Future[Any]]] = deque()
        self._marks: dict[str, None] = {}
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="nextquery-writer", daemon=True)
        self._thread.start()

    def submit(self, item: Item) -> "Future[Any]":
        """Write an item with the next transaction."""
        return self.submit_many([item])[0]

    def submit_many(self, items: Sequence[Item]) -> "list[Future[Any]]":
        """Write items with the next transaction, together where there is room."""
        futures: list[Future[Any]] = [Future() for _ in items]
        for future in futures:
            future.set_running_or_notify_cancel()  # what is in the log cannot be cancelled
        with self._changed:
            if not self._closing and len(self._items) < _WAITING:
                self._items.extend(zip(items, futures, strict=True))
                self._changed.notify()
                return futures
            why = "is closing" if self._closing else "waits for the database already"
        for future in futures:
            future.set_exception(
                StoreUnavailable(f"this worker {why}; nothing was written. Try again.")
            )
        return futures

    def mark_delivered(self, decision_id: str) -> None:
        """Say that an answer was sent: written with the next transaction, or within 100 ms."""
        with self._changed:
            self._marks[decision_id] = None
            self._changed.notify()

    @property
    def waiting(self) -> int:
        """How many items are not written yet."""
        return len(self._items)

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._items and not self._closing:
                    timed_out = not self._changed.wait(_MARKS_S if self._marks else None)
                    if timed_out and self._marks:
                        break
                count = min(len(self._items), _MOST)
                batch = [self._items.popleft() for _ in range(count)]
                marks, self._marks = list(self._marks), {}
                if not batch and not marks and self._closing:
                    return
            self._commit(batch, marks)
            if self.failures and not self._closing:
                time.sleep(min(0.05 * 2 ** min(self.failures, 5), 1.0))

    def _commit(self, batch: list[tuple[Item, "Future[Any]"]], marks: list[str]) -> None:
        """One transaction; what it returns or raises goes to the futures after its end."""
        try:
            results = self._transaction([item for item, _ in batch], marks)
        except StoreUnavailable as error:
            self.failures += 1
            with self._changed:
                if not self._closing:
                    self._marks = {**dict.fromkeys(marks), **self._marks}
            for _, future in batch:
                _settle(future, error)
            return
        except Exception as error:
            if len(batch) == 1:
                _settle(batch[0][1], error)
            else:  # one item that the database refuses must not take the others with it
                for one in batch:
                    self._commit([one], [])
                self._commit([], marks)
            return
        self.failures = 0
        if batch:
            self._written()
        for (_, future), result in zip(batch, results, strict=True):
            _settle(future, result)

    def _transaction(self, items: list[Item], marks: list[str]) -> list[Any]:
        results: list[Any] = []
        with self.store.writing() as connection:
            if marks:  # first: a slate that was sent must not be closed as undelivered
                delivered = sa.update(decisions).where(decisions.c.id == sa.bindparam("decision"))
                connection.execute(
                    delivered.values(delivered=True), [{"decision": one} for one in marks]
                )
            if items:
                ledger = Ledger(connection, self.clock)
                asked = [item.asks() for item in items]
                ledger.fetch(
                    (one for ids, _ in asked for one in ids),
                    (key for _, keys in asked for key in keys),
                )
                for item in items:
                    try:
                        results.append(item.write(ledger))
                    except NextqueryError as error:
                        results.append(error)
                ledger.flush()
        return results


def _settle(future: "Future[Any]", result: Any) -> None:
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
