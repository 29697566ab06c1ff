"""Durable connections to SQLite and PostgreSQL through one SQLAlchemy engine."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from nextquery.checks import installed
from nextquery.errors import InvalidInput, StorageError

WRITES = "nextquery_writes"


def connect(url: str, *, wait_s: float = 5.0, answer_s: float = 10.0) -> sa.Engine:
    """Return an engine for a path, ``sqlite:///path`` or ``postgresql://user@host/name``.

    `wait_s` is how long to wait for a locked or unreachable database, `answer_s` for the answer to
    one statement on PostgreSQL.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        engine = sa.create_engine(
            parsed,
            pool_size=8,
            max_overflow=24,
            pool_timeout=wait_s,
            connect_args={"timeout": wait_s},
        )
        event.listen(engine, "connect", _harden)
        event.listen(engine, "begin", _begin)
        return engine
    installed("postgres", "psycopg")
    from nextquery.service.log.database.postgres import bounded, connect_arguments

    engine = sa.create_engine(
        parsed,
        pool_size=8,
        max_overflow=24,
        pool_pre_ping=True,
        pool_timeout=wait_s,
        connect_args=connect_arguments(wait_s=wait_s, answer_s=answer_s),
    )

    def open_bounded(dialect: Any, record: Any, cargs: Any, cparams: Any) -> Any:
        return bounded(cargs, cparams, answer_s=answer_s)

    event.listen(engine, "do_connect", open_bounded)
    return engine


def file_of(url: str) -> Path | None:
    """Return the file of an SQLite store, or None for PostgreSQL.

    Links are followed, as SQLite does: it keeps its other files beside the real one.
    """
    parsed = _parsed(url)
    return Path(str(parsed.database)).resolve() if parsed.get_backend_name() == "sqlite" else None


def without_password(url: str) -> str:
    """Return the address of a store without its password, even if it is not a valid address.

    >>> without_password("postgres//u:s3cret@h/db"), without_password("sqlite:///e.db")
    ('postgres//u:***@h/db', 'sqlite:///e.db')
    """
    hidden = re.sub(r":[^:@/]+@", ":***@", url)
    return re.sub(r"(?i)((?:password|passfile|sslpassword)=)[^&]*", r"\1***", hidden)


def _parsed(url: str) -> sa.URL:
    text = url if "://" in url else f"sqlite:///{Path(url).expanduser()}"
    try:
        parsed = sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        raise _bad_url("a text that is not a URL") from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        raise _bad_url(f"a URL of {parsed.drivername}")
    if parsed.drivername == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise _bad_url("SQLite without a file, which would store nothing")
    return parsed


def check_url(url: str) -> None:
    """Raise an error if a store cannot have this address."""
    _parsed(url)


def _bad_url(received: str) -> InvalidInput:
    return InvalidInput(
        "the store must be a path to an SQLite file, sqlite:///PATH or "
        f"postgresql://USER:PASSWORD@HOST/NAME; received {received}."
    )


def _harden(connection: sqlite3.Connection, _: Any) -> None:
    """Make every connection confirm a commit only when it is on disk."""
    connection.isolation_level = None  # only `_begin` opens transactions
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: sa.Connection) -> None:
    # A writer takes the lock at once; upgrading from a read lock could fail later.
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def check_durable(connection: sa.Connection) -> None:
    """Raise an error if the database confirms commits before they are on disk."""
    settings: dict[str, tuple[str, ...]] = {"synchronous": ("2",), "journal_mode": ("wal",)}
    read = "PRAGMA {}"
    if connection.dialect.name == "postgresql":
        durable = ("on", "remote_write", "remote_apply", "local")
        settings, read = {"fsync": ("on",), "synchronous_commit": durable}, "SHOW {}"
    for name, allowed in settings.items():
        value = str(connection.exec_driver_sql(read.format(name)).scalar())
        if value not in allowed:
            raise StorageError(
                f"the database has {name} = {value}: confirmed commits could be lost. Set it to "
                f"{' or '.join(allowed)} and start again."
            )
