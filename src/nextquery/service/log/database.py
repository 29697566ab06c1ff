"""The database below the event log: connections, its files, tables, time limits and errors.

*Connections* to SQLite and PostgreSQL are durable, through one SQLAlchemy engine. An open
database is checked when it is opened, and gives out transactions.

*Errors.* `Store.reading` and `Store.writing` run inside `database_errors`. A transaction that
fails is rolled back, and `StoreUnavailable` reaches the caller. `Writer` fails every write of
that transaction with it and tries later ones after a pause. The HTTP layer answers 503 with
`Retry-After`, and `/readyz` fails. The learner continues from its position once the database is
back. If the connection breaks while a commit is confirmed, only the database knows whether it was
written. The error says so. It is safe to repeat the request: it is recorded once.

*Waiting.* A database that does not answer would otherwise fill the threads that all requests
share, or stop the event loop. So `StoreCalls` has a few threads of its own, with callers that
wait for a limited time. A thread that never returns does not keep the process from ending.

*SQLite files.* A process can continue to write to an open file after it was deleted or replaced.
Every commit then succeeds, and all of it is lost. So the store compares the files at its path
with those that it opened, after each commit and before it is confirmed.

*The marker* is a small file next to an SQLite store that names the store. Without it, a service
whose database file is missing would start with an empty one. The loss of everything
learned would then go unnoticed. Delete the marker to start a new log on purpose.
"""

import asyncio
import hashlib
import json
import logging
import os
import re
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy import event, exc

from nextquery.checks import installed
from nextquery.errors import InvalidInput, StorageError, StoreUnavailable
from nextquery.service.log.schema import VERSION, counter, metadata, store_version

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
    from nextquery.service.log.postgres import bounded, connect_arguments

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


_NOT_WRITTEN = "Nothing was written. Try again"
_UNKNOWN = (
    "Whether the last change was written is unknown, since the connection broke during the commit. "
    "Try again with the same request_id; what was written is not written twice"
)


@dataclass
class Phase:
    """How far a transaction has come."""

    committing: bool = False


@contextmanager
def database_errors() -> Iterator[Phase]:
    """Raise the database's errors as ours, without the values of the statement."""
    phase = Phase()
    try:
        yield phase
    except exc.DataError as error:
        raise InvalidInput(f"the database rejected a value: {_first_line(error.orig)}.") from None
    except exc.DBAPIError as error:
        broken = phase.committing and error.connection_invalidated
        raise StoreUnavailable(
            f"the database is unavailable: {_first_line(error.orig)}. "
            f"{_UNKNOWN if broken else _NOT_WRITTEN}, and check the database's disk, permissions "
            "and connections."
        ) from error.orig
    except exc.TimeoutError:
        raise StoreUnavailable(
            "all connections to the database are busy. Nothing was written. Try again."
        ) from None


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


_log = logging.getLogger("nextquery.service")


class Marker:
    """The file ``PATH-store.json`` beside the database ``PATH``.

    Read the marker before you look at the database: a marker is written after the tables, so a
    marker that was there first means that the tables must be there.
    """

    def __init__(self, database: Path) -> None:
        self.database = database
        self.path = database.with_name(f"{database.name}-store.json")
        self.store = self._read()

    def missing(self, what: str = "is missing") -> StorageError:
        """Return the error for a database that should be there."""
        return StorageError(
            f"the event log {self.database} {what}, but {self.path.name} beside it says that there "
            f"was one (store {self.store}). Restore {self.database.name} from a backup, or delete "
            f"{self.path.name} to start an empty log."
        )

    def check(self, store: str | None) -> None:
        """Raise an error if the database holds another store than the marker says, or none."""
        if self.store is None or self.store == store:
            return
        if store is None:
            raise self.missing("is empty")
        raise StorageError(
            f"{self.database} holds another event log (store {store}) than the one that was there "
            f"before (store {self.store}). Restore that one, or delete {self.path.name} to serve "
            "the new one."
        )

    def write(self, store: str) -> None:
        """Write the marker, unless it is there."""
        if self.store is not None:
            return
        content = {
            "about": f"{self.database.name} must be beside this file. See docs/operate.md.",
            "store": store,
        }
        temporary = self.path.with_name(f".{self.path.name}-{secrets.token_hex(4)}.tmp")
        try:
            descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(content, indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except OSError as error:
            _log.warning(
                "cannot write %s (%s); a later start will not notice a missing event log",
                self.path,
                error.strerror,
            )
            temporary.unlink(missing_ok=True)

    def _read(self) -> str | None:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            return str(found["store"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise StorageError(
                f"{self.path} cannot be read. It names the event log that belongs beside it. If "
                f"{self.database.name} is the right one, delete {self.path.name}: it is written "
                "again."
            ) from None


def store_id(secret: str) -> str:
    """Return the public id of a store, which follows from its secret.

    >>> store_id("a") == store_id("a") != store_id("b"), len(store_id("a"))
    (True, 16)
    """
    return hashlib.sha256(f"nextquery store {secret}".encode()).hexdigest()[:16]


_OTHERS = 0o077  # the rights of group and others


def check_file(path: Path, *, create: bool) -> None:
    """Raise an error if `path` cannot be a store; with `create`, create a missing file."""
    if path.is_file():
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


class SqliteFile:
    """The database file and its two companions, as they were when the store was opened.

    One connection stays open as long as this object. It keeps the inode numbers from being used
    for new files, and SQLite from removing the companions.
    """

    def __init__(self, path: Path, *, wait_s: float) -> None:
        self.path = path
        self._files = [path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))]
        self._held = sqlite3.connect(path, timeout=wait_s, check_same_thread=False)
        try:
            self._held.execute("PRAGMA journal_mode=WAL")
            self._held.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            self._held.close()
            raise _cannot_open(path, error) from None
        self._opened = [_identity(file) for file in self._files]
        for file in self._files:
            _only_for_its_owner(file)

    def check(self) -> None:
        """Raise an error if the files at the path are not those that were opened."""
        for file, opened in zip(self._files, self._opened, strict=True):
            found = _identity(file)
            if found != opened:
                happened = "deleted" if found is None else "replaced"
                raise StoreUnavailable(
                    f"{file} was {happened} while the event log was in use. Nothing is "
                    "acknowledged any more. Put the file back if it was only moved; otherwise stop "
                    "every process that uses it, restore the event log from a backup and start "
                    "again."
                )

    def close(self) -> None:
        """Let go of the files."""
        self._held.close()


def _cannot_open(path: Path, error: sqlite3.Error) -> StorageError:
    if "not a database" in str(error):
        return StorageError(f"{path} is not an SQLite database. Pass another file.")
    return StoreUnavailable(
        f"cannot open the event log {path}: {error}. Nothing was written. Try again, and check the "
        "database's disk, permissions and connections."
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _only_for_its_owner(path: Path) -> None:
    """Take away the rights of group and others, and warn about it."""
    try:
        mode = path.stat().st_mode & 0o777
        if mode & _OTHERS:
            path.chmod(mode & ~_OTHERS)
            _log.warning("%s was readable by others (%o); it is now only for its owner", path, mode)
    except OSError as error:
        _log.warning(
            "%s is readable by others and cannot be changed (%s); run chmod 600 on it as its owner",
            path,
            error.strerror,
        )


_CREATING = 0x6E657874  # the key of our advisory lock in PostgreSQL


def has_tables(connection: sa.Connection, name: str) -> bool:
    """Whether a database has the tables of a store; those of another version are an error."""
    ours = metadata.tables.keys() & set(sa.inspect(connection).get_table_names())
    if not ours:
        return False
    known = store_version.name in ours
    found = connection.execute(sa.select(store_version.c.version)).scalar() if known else None
    if found != VERSION:
        tables = ", ".join(sorted(ours))
        which = f"no version number ({tables})" if found is None else f"version {found}"
        raise StorageError(
            f"the tables of {name} have {which}; this nextquery uses version {VERSION}. Use the "
            "nextquery that wrote them, or pass another store: a new file, or an empty database."
        )
    return True


def create_tables(connection: sa.Connection, name: str) -> None:
    """Make the tables, once, even if several processes start together."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")  # wait for another that makes them
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATING)))
    if has_tables(connection, name):
        return
    metadata.create_all(connection, checkfirst=False)
    positions = dict.fromkeys(("position", "next_arm", "barrier", "model", "erased", "cleaned"), 0)
    start = {"id": 1, **positions, "clock": 0.0, "secret": secrets.token_hex(32)}
    connection.execute(sa.insert(counter), [start])
    connection.execute(sa.insert(store_version), [{"version": VERSION}])


_USUAL_S = -1.0  # as long as the store allows for every statement


class OpenDatabase:
    """Connections to SQLite or PostgreSQL, with tables of the right version."""

    def __init__(self, engine: sa.Engine, file: SqliteFile | None = None) -> None:
        self.engine, self._file = engine, file
        self._writing = engine.execution_options(**{WRITES: True})
        if file is not None:  # no connection may open another file
            sa.event.listen(engine, "connect", lambda *_: file.check())

    @classmethod
    def open(
        cls, url: str, *, create: bool = True, wait_s: float = 5.0, answer_s: float = 10.0
    ) -> Self:
        """Connect, check that commits are durable, and make the tables in an empty database.

        Parameters
        ----------
        url : a path, ``sqlite:///path`` or ``postgresql://…``.
        create : whether to create a missing database; otherwise it is an error.
        wait_s : seconds to wait for a locked or unreachable database.
        answer_s : seconds in which PostgreSQL must answer a statement.
        """
        path = file_of(url)
        marker, file = None, None
        if path is not None:
            marker = Marker(path)  # read first, see there
            if marker.store is not None and not path.exists():
                raise marker.missing()
            check_file(path, create=create)
            file = SqliteFile(path, wait_s=wait_s)
        store = cls(connect(url, wait_s=wait_s, answer_s=answer_s), file)
        try:
            store._prepare(marker, create=create)
        except BaseException:
            store.close()
            raise
        return store

    def _prepare(self, marker: Marker | None, *, create: bool) -> None:
        with self.reading() as connection:
            check_durable(connection)
            empty = not has_tables(connection, self.name)
        if empty and marker is not None:
            marker.check(None)
        if empty and not create:
            raise StorageError(
                f"{self.name} has no event log. Pass the store that the service writes to, or "
                "start `nextquery serve` to create one."
            )
        if empty:
            with self.writing(answer_s=None) as connection:
                create_tables(connection, self.name)
        if marker is not None:
            found = store_id(self._secret())
            marker.check(found)
            marker.write(found)

    def _secret(self) -> str:
        with self.reading() as connection:
            return str(connection.execute(sa.select(counter.c.secret)).scalar_one())

    @property
    def name(self) -> str:
        """The address of the database, without its password."""
        return without_password(self.engine.url.render_as_string(hide_password=True))

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that only reads."""
        self.check_file()
        with database_errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, *, answer_s: float | None = _USUAL_S) -> Iterator[sa.Connection]:
        """Open a transaction that writes; on SQLite it holds the lock from its start.

        Whoever leaves it without an error may confirm what was written. `answer_s` is how long
        PostgreSQL may take for one statement, if not as long as usual; None means without limit.
        """
        self.check_file()
        with (
            database_errors() as phase,
            self._writing.connect() as connection,
            connection.begin(),
            _patience(connection, answer_s),
        ):
            yield connection
            phase.committing = True
        self.check_file()  # a commit to a deleted file is lost

    def check_file(self) -> None:
        """Raise an error if the database's file was deleted or replaced."""
        if self._file is not None:
            self._file.check()

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()
        if self._file is not None:
            self._file.close()


def _patience(connection: sa.Connection, answer_s: float | None) -> AbstractContextManager[None]:
    if connection.dialect.name != "postgresql" or answer_s == _USUAL_S:
        return nullcontext()

    from nextquery.service.log.postgres import waiting_longer

    return waiting_longer(connection, answer_s)
