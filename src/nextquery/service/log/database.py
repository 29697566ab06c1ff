"""Durable connections to SQLite and PostgreSQL through one SQLAlchemy engine."""

import contextlib
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from nextquery.checks import installed
from nextquery.errors import InvalidInput, StorageError

WRITES = "nextquery_writes"


def connect(url: str, *, create: bool = True, wait_s: float = 5.0) -> sa.Engine:
    """Return an engine for a path, ``sqlite:///path`` or ``postgresql://user@host/name``.

    `wait_s` is how long to wait for a locked or unreachable database. A missing SQLite file is
    created, readable only by its owner; with ``create=False`` it is an error.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        _check_file(Path(str(parsed.database)), create=create)
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
    return sa.create_engine(
        parsed,
        pool_size=8,
        max_overflow=24,
        pool_pre_ping=True,
        pool_timeout=wait_s,
        connect_args={
            "connect_timeout": max(2, int(wait_s)),
            "options": f"-c lock_timeout={int(wait_s * 1000)}",
        },
    )


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


def _check_file(path: Path, *, create: bool) -> None:
    if path.is_file():
        begin = b""
        with contextlib.suppress(OSError), path.open("rb") as file:
            begin = file.read(16)
        if begin not in (b"", b"SQLite format 3\0"):
            raise StorageError(f"{path} is not an SQLite database. Pass another file.")
        return
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise StorageError(
            f"cannot store the event log in {path}: {why}. Pass a file in an existing folder."
        )
    if not create:
        raise StorageError(
            f"there is no event log {path}. Pass the store that the service writes to, or start "
            "`nextquery serve` to create one."
        )
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # it will contain people's queries
    except OSError as error:
        raise StorageError(
            f"cannot create the event log {path}: {error.strerror}. Pass a file in a folder that "
            "you can write to."
        ) from None


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
