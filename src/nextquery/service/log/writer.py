"""Group commit: one thread writes for many callers, and confirms only what is on disk.

A transaction assigns positions, and writes all its events when it ends.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol, TypeVar

import sqlalchemy as sa

from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.learning import OPEN, Outcome
from nextquery.service import tracing
from nextquery.service.log.events import Body, FeedbackEvent, NextQuery, from_json, parts, to_json
from nextquery.service.log.new_arms import Caps, Identities, Teaching, TypedTexts
from nextquery.service.log.schema import counter, decisions, events
from nextquery.service.log.store import Clock, Store, head_of, session_key
from nextquery.signing import keyed


@dataclass
class DecisionRow:
    """A row of the table `decisions`, and whether this transaction changed it."""

    id: str
    position: int
    owner: str
    session_id: str
    arms: list[int]
    outcome: Outcome
    issued: bool
    delivered: bool
    person: str | None = None
    changed: bool = False


class TypedBefore(NamedTuple):
    """What earlier feedback on a decision told about a typed query.

    `full` is what it taught, and `foreseen` whether the query was in the slate; None if there was
    none.
    """

    full: NextQuery | None = None
    foreseen: bool | None = None


class Needs(NamedTuple):
    """What a write looks at: read for all writes of a transaction in one go.

    Decision ids, request keys, user hashes, sessions as (owner, session id), text keys, and the
    caps with owner, session id and user hash.
    """

    decisions: Sequence[str] = ()
    requests: Sequence[str] = ()
    users: Sequence[str] = ()
    sessions: Sequence[tuple[str, str]] = ()
    texts: Sequence[str] = ()
    teachers: Sequence[tuple[Caps, str, str, str | None]] = ()


NOTHING = Needs()
Result_co = TypeVar("Result_co", covariant=True)


class Write(Protocol[Result_co]):
    """Something to write: what it needs to know, and how it is written."""

    def needs(self) -> Needs:
        """Return what `write` looks at."""

    def write(self, transaction: "Transaction") -> Result_co:
        """Write, and return the answer; errors are raised before anything is written."""


@dataclass
class Transaction:
    """The log under its lock: no other process appends until the transaction ends."""

    connection: sa.Connection
    clock: Clock
    rows: dict[str, DecisionRow] = field(default_factory=dict)
    requests: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        head = head_of(self.connection, lock=True)
        self.position, self.next_arm, self.barrier = head.position, head.next_arm, head.barrier
        self.model, self._secret = head.model, head.secret
        self.time = self.clock.at_least(head.clock)
        self.identities = Identities(self.connection, self.time)
        self.texts = TypedTexts(self.connection, self.time)
        self.teaching = Teaching(self.connection, self.time)
        self._started_at = head.position
        self._events: list[dict[str, object]] = []
        self._decisions: list[dict[str, object]] = []
        self._wanted: list[Needs] = []

    def fetch(self, needs: Iterable[Needs]) -> None:
        """Read everything that these writes need, in a few queries for all of them."""
        wanted = list(needs)
        self._wanted += wanted
        self._fetch_decisions(id for need in wanted for id in need.decisions)
        self._fetch_requests(key for need in wanted for key in need.requests)
        users = {user for need in wanted for user in need.users}
        users |= self.texts.fetch(key for need in wanted for key in need.texts)
        sessions = {session for need in wanted for session in need.sessions}
        sessions |= {(row.owner, row.session_id) for row in self.rows.values()} if users else set()
        self.identities.fetch({*users, *(self.session_key(*session) for session in sessions)})
        self.teaching.fetch(
            name
            for need in wanted
            for caps, owner, session_id, user in need.teachers
            for name in caps.of(owner, session_id, self.identity(user))
        )

    def read_again(self) -> None:
        """Read what the writes of this transaction need once more: a write has erased rows."""
        self.flush()
        wanted, self._wanted = self._wanted, []
        self.rows.clear()
        self.requests.clear()
        self.identities = Identities(self.connection, self.time)
        self.texts = TypedTexts(self.connection, self.time)
        self.teaching = Teaching(self.connection, self.time)
        self.fetch(wanted)

    def identity(self, user_hash: str | None) -> str | None:
        """Return the identity of a user, if there is one."""
        return None if user_hash is None else self.identities.of(user_hash)

    def _fetch_decisions(self, ids: Iterable[str]) -> None:
        names = ("id", "position", "owner", "session_id", "state", "accepted")
        columns = [
            decisions.c[n] for n in (*names, "arms", "rewards", "issued", "delivered", "person")
        ]
        for part in parts(ids):
            found = sa.select(*columns).where(decisions.c.id.in_(part))
            for row in self.connection.execute(found):
                self.rows[row.id] = DecisionRow(
                    row.id,
                    row.position,
                    row.owner,
                    row.session_id,
                    json.loads(row.arms),
                    Outcome(row.state, row.accepted, json.loads(row.rewards)),
                    row.issued,
                    row.delivered,
                    row.person,
                )

    def _fetch_requests(self, keys: Iterable[str]) -> None:
        same = (decisions.c.request_key, decisions.c.id, decisions.c.request_hash)
        for part in parts(keys):
            found = sa.select(*same).where(decisions.c.request_key.in_(part))
            for key, decision_id, request_hash in self.connection.execute(found):
                self.requests[key] = (decision_id, request_hash)

    def session_key(self, owner: str, session_id: str) -> str:
        """Return the keyed hash of a session."""
        return session_key(self._secret, owner, session_id)

    def text_key(self, text: str) -> str:
        """Return the key of a cleaned text."""
        return keyed(self._secret, "text", text)

    def typed_before(self, decision_id: str) -> TypedBefore:
        """Return what earlier feedback on a decision told about a typed query."""
        self.flush()
        feedback = (events.c.decision_id == decision_id, events.c.kind == FeedbackEvent.kind)
        rows = sa.select(events.c.position, events.c.body).where(*feedback)
        foreseen = None
        for position, text in self.connection.execute(rows.order_by(events.c.position)):
            body = from_json(FeedbackEvent.kind, text, position)
            if not isinstance(body, FeedbackEvent):
                continue
            foreseen = body.foreseen if foreseen is None else foreseen
            if body.full is not None:
                return TypedBefore(body.full, foreseen)
        return TypedBefore(None, foreseen)

    def append(self, body: Body, decision_id: str | None = None) -> int:
        """Append an event to the log and return its position."""
        self.position += 1
        self._events.append(
            {
                "position": self.position,
                "kind": body.kind,
                "time": self.time,
                "decision_id": decision_id,
                "body": to_json(body),
            }
        )
        return self.position

    def raise_barrier(self) -> None:
        """From now on no answer is recorded whose model has not read the last event."""
        self.barrier = self.position

    def vector(self, vector: str, model: int | None) -> str:
        """Return a vector, or none if it was computed at an older model: with another encoder?"""
        return vector if model in (None, self.model) else ""

    def take_arm_id(self) -> int:
        """Return the id of the next arm and count on."""
        self.next_arm += 1
        return self.next_arm - 1

    def add_decision(
        self,
        id: str,
        arms: list[int],
        *,
        owner: str,
        session_id: str,
        user_hash: str | None,
        request_key: str | None,
        request_hash: str | None,
        person: str | None,
    ) -> None:
        """Make the decision that was appended last findable by id, session and request."""
        self._decisions.append(
            {
                "id": id,
                "owner": owner,
                "session_id": session_id,
                "request_key": request_key,
                "request_hash": request_hash,
                "user_hash": user_hash,
                "person": person,
                "state": OPEN.state,
                "accepted": None,
                "arms": json.dumps(arms),
                "rewards": "[]",
                "issued": False,
                "delivered": False,
                "position": self.position,
                "time": self.time,
            }
        )
        self.rows[id] = DecisionRow(
            id, self.position, owner, session_id, arms, OPEN, False, False, person
        )
        if request_key is not None:
            self.requests[request_key] = (id, request_hash or "")

    def flush(self) -> None:
        """Write everything collected so far."""
        self.identities.flush()
        self.texts.flush()
        self.teaching.flush()
        if self._events:
            self.connection.execute(sa.insert(events), self._events)
        if self._decisions:
            self.connection.execute(sa.insert(decisions), self._decisions)
        changed = [row for row in self.rows.values() if row.changed]
        if changed:
            self.connection.execute(_UPDATE, [_values(row) for row in changed])
        if self.position > self._started_at:
            values = {"position": self.position, "next_arm": self.next_arm}
            values |= {"barrier": self.barrier, "model": self.model}
            self.connection.execute(sa.update(counter).values(**values, clock=self.time))
        self._events, self._decisions, self._started_at = [], [], self.position
        for row in changed:
            row.changed = False


_UPDATE = (
    sa.update(decisions)
    .where(decisions.c.id == sa.bindparam("row_id"))
    .values(
        state=sa.bindparam("new_state"),
        accepted=sa.bindparam("new_accepted"),
        rewards=sa.bindparam("new_rewards"),
        issued=sa.bindparam("new_issued"),
        delivered=sa.bindparam("new_delivered"),
    )
)


def _values(row: DecisionRow) -> dict[str, object]:
    return {
        "row_id": row.id,
        "new_state": row.outcome.state,
        "new_accepted": row.outcome.accepted,
        "new_rewards": json.dumps(row.outcome.rewards),
        "new_issued": row.issued,
        "new_delivered": row.delivered,
    }


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
