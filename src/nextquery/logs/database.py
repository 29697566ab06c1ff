"""DuckDB with bounded memory, a private scratch folder, progress reports and full clean-up.

Data stays in memory until the limit is reached; then DuckDB spills to the scratch folder. Spilled
pages contain raw queries, so the folder is always deleted on exit. If a process is killed, the
next run deletes its folder: a scratch folder whose lock is free is stale.

Small helpers build pieces of SQL with proper quoting.
"""

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput, StorageError

try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows: stale folders are not deleted)
    fcntl = None  # type: ignore[assignment]

Progress = Callable[[str, float | None], None]

_PREFIX = ".nextquery-scratch-"
_POLL_SECONDS = 0.1


class LogDatabase:
    """One DuckDB connection; `stage` names the current work in progress reports.

    >>> with opened(memory_limit="100MB") as engine:
    ...     engine.rows("SELECT 6 * 7")
    [(42,)]
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, scratch: Path, progress: Progress | None
    ) -> None:
        self.connection, self.scratch, self._progress = connection, scratch, progress
        self._stage = ""

    def stage(self, name: str) -> None:
        """Start the stage `name`; the stage before it is reported as done."""
        if self._progress and self._stage:
            self._progress(self._stage, 1.0)
        self._stage = name
        if self._progress and name:
            self._progress(name, None)

    def report(self, done: float) -> None:
        """Report how much of the stage is done, from 0 to 1."""
        if self._progress:
            self._progress(self._stage, done)

    def run(self, sql: str, parameters: list[Any] | None = None) -> None:
        """Execute one statement for its effect."""
        # DuckDB runs in another thread, so that this one can report progress and handle Ctrl-C.
        failure: list[BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                self._execute(sql, parameters)
            except BaseException as error:
                failure.append(error)
            finally:
                done.set()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while not done.wait(_POLL_SECONDS):
                if self._progress and (percent := self.connection.query_progress()) > 0:
                    self._progress(self._stage, min(percent / 100, 1.0))
        except BaseException:
            while not done.wait(_POLL_SECONDS):  # one interrupt could fall between two steps
                self.connection.interrupt()
            raise
        finally:
            thread.join()
        if failure:
            raise failure[0]

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a small result."""
        return self._execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: list[Any] | None = None) -> Any:
        """Return the single value of a result."""
        return self.rows(sql, parameters)[0][0]

    def columns(self, sql: str) -> dict[str, NDArray[Any]]:
        """Return a large result as one array per column; it must not contain NULLs."""
        columns = self._execute(sql, None).fetchnumpy()
        return {name: np.asarray(column) for name, column in columns.items()}

    def insert(self, table: str, columns: dict[str, NDArray[Any]]) -> None:
        """Append arrays to a table."""
        self.connection.register("_batch", columns)
        try:
            self._execute(f"INSERT INTO {table} SELECT * FROM _batch", None)
        finally:
            self.connection.unregister("_batch")

    def _execute(self, sql: str, parameters: list[Any] | None) -> duckdb.DuckDBPyConnection:
        try:
            return self.connection.execute(sql, parameters)
        except RuntimeError as error:
            if "interrupted" in str(error):  # how DuckDB reports Ctrl-C
                raise KeyboardInterrupt from error
            raise
        except duckdb.OutOfMemoryException as error:
            raise StorageError(
                f"the log does not fit: {_first_line(error)}. Raise the memory limit "
                "(--memory-limit 4GB), or use a working folder with more free space."
            ) from error


@contextlib.contextmanager
def opened(
    *,
    memory_limit: str,
    workdir: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Iterator[LogDatabase]:
    """A `LogDatabase` whose scratch folder (under `workdir`) is deleted when the block ends."""
    with _scratch(workdir) as scratch:
        config: dict[str, Any] = {
            "memory_limit": memory_limit,
            "temp_directory": str(scratch / "spill"),
            "TimeZone": "UTC",  # a time without a zone means the same on every machine
            "autoinstall_known_extensions": "false",  # no network access
        }
        if threads is not None:
            config["threads"] = str(threads)
        try:
            connection = duckdb.connect(config=config)
        except duckdb.Error as error:
            raise InvalidInput(f"DuckDB rejected its settings: {_first_line(error)}.") from error
        try:
            # DuckDB counts its progress but must never print it: stdout belongs to the caller. In a
            # notebook without ipywidgets it does neither, and refuses to change that.
            with contextlib.suppress(duckdb.InvalidInputException):
                connection.execute("SET enable_progress_bar_print = false")
                connection.execute(f"SET enable_progress_bar = {'true' if progress else 'false'}")
            engine = LogDatabase(connection, scratch, progress)
            yield engine
            engine.stage("")
        finally:
            connection.close()


@contextlib.contextmanager
def _scratch(workdir: str | os.PathLike[str] | None) -> Iterator[Path]:
    parent = Path(tempfile.gettempdir() if workdir is None else workdir)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    except OSError as error:
        raise StorageError(
            f"cannot work in {parent}: {error}. Use a folder that you can write to."
        ) from error
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR)
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(parent: Path) -> None:
    """Delete the scratch folders of processes that were killed."""
    if fcntl is None:  # pragma: no cover
        return
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(folder / "lock", os.O_RDWR)
        except OSError:
            continue  # it is being created or deleted, or belongs to another user
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process is running
        finally:
            os.close(lock)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0].rstrip(".")


def text(value: str) -> str:
    """Quote a text as an SQL literal.

    >>> text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"


def name(value: str) -> str:
    """Quote a text as an SQL name.

    >>> name("when")
    '"when"'
    """
    return '"' + value.replace('"', '""') + '"'


def matches(column: str, pattern: str, flags: str = "") -> str:
    """SQL condition: the regular expression (RE2) matches somewhere in the column."""
    more = f", '{flags}'" if flags else ""
    return f"regexp_matches({column}, {text(pattern)}{more})"


def replaced(column: str, pattern: str, by: str, flags: str = "g") -> str:
    """SQL expression: the column with every match of the regular expression replaced."""
    return f"regexp_replace({column}, {text(pattern)}, {text(by)}, '{flags}')"
