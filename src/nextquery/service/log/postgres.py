"""PostgreSQL connections that wait for an answer only so long; the driver is an extra.

A server that was stopped, or a network that drops packets, keeps its connections open and never
answers. The server's own limits (`statement_timeout`) do not help then. So each connection also has
a limit here: when it is over, the connection is closed and the caller gets an error.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psycopg
import sqlalchemy as sa

_IDLE_S = 60  # a transaction that does nothing for this long is ended by the server
_GRACE_S = 1.0  # so that the server's own error comes first, if it can send one
_DEAD_S = 10  # seconds of unanswered TCP packets until a connection is closed


class BoundedConnection(psycopg.Connection[Any]):
    """A connection of psycopg that is closed if the server does not answer within `answer_s`."""

    answer_s: float | None = 10.0

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **more: Any) -> Any:
        """Wait for one answer of the server, as psycopg does, but not for ever."""
        return super().wait(self._bounded(gen), *args, **more)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass on what `gen` waits for; psycopg resumes it at least every 0.1 s."""
        limit = self.answer_s
        end = None if limit is None else monotonic() + limit + _GRACE_S
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and end is not None and monotonic() > end:
                    self.pgconn.finish()  # a later answer has nobody to go to
                    raise psycopg.OperationalError(f"no answer within {limit:g} s")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value


def connect_arguments(*, wait_s: float, answer_s: float) -> dict[str, Any]:
    """Return the limits that the driver and the server apply to a connection."""
    limits = {
        "lock_timeout": wait_s,
        "statement_timeout": answer_s,
        "idle_in_transaction_session_timeout": _IDLE_S,
    }
    return {
        "connect_timeout": max(2, int(wait_s)),
        "options": " ".join(f"-c {name}={int(s * 1000)}" for name, s in limits.items()),
        "keepalives": 1,
        "keepalives_idle": _DEAD_S,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": _DEAD_S * 1000,
    }


def bounded(cargs: Any, cparams: Any, *, answer_s: float) -> BoundedConnection:
    """Open a connection with a limit on every answer."""
    connection = BoundedConnection.connect(*cargs, **cparams)
    connection.answer_s = answer_s
    return connection


@contextmanager
def waiting_longer(connection: sa.Connection, answer_s: float | None) -> Iterator[None]:
    """Let one transaction wait longer for its answers; None means without limit."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, BoundedConnection)
    limit = 0 if answer_s is None else int(answer_s * 1000)
    connection.exec_driver_sql(f"SET LOCAL statement_timeout = {limit}")
    usual, driver.answer_s = driver.answer_s, answer_s
    try:
        yield
    finally:
        driver.answer_s = usual
