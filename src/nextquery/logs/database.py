"""DuckDB with manners: bounded memory, a private scratch folder, progress, and no traces.

Everything lives in memory until the limit is reached; then DuckDB spills to the scratch folder.
Spilled pages hold raw queries, so the folder is deleted on every way out, and what a killed
process left behind is swept by the next run: a folder whose lock nobody holds is nobody's.
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
except ImportError:  # pragma: no cover  (Windows: stale folders are then left to the user)
    fcntl = None  # type: ignore[assignment]

Progress = Callable[[str, float | None], None]

_PREFIX = ".nextquery-scratch-"
_POLL_SECONDS = 0.1


class Engine:
    """One DuckDB connection; `stage` names what it is doing for whoever watches.

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
        """From now on the work belongs to the stage `name`."""
        if self._progress and self._stage:
            self._progress(self._stage, 1.0)
        self._stage = name
        if self._progress and name:
            self._progress(name, None)

    def report(self, done: float) -> None:
        """Tell whoever watches how much of the stage is done, from 0 to 1."""
        if self._progress:
            self._progress(self._stage, done)

    def run(self, sql: str, parameters: list[Any] | None = None) -> None:
        """Execute one statement for its effect."""
        # DuckDB works in another thread, so that this one can report and hear Ctrl-C.
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
            while not done.wait(_POLL_SECONDS):  # an interrupt between two steps would be lost
                self.connection.interrupt()
            raise
        finally:
            thread.join()
        if failure:
            raise failure[0]

    def rows(self, sql: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a small answer."""
        return self._execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: list[Any] | None = None) -> Any:
        """The only value of an answer."""
        return self.rows(sql, parameters)[0][0]

    def columns(self, sql: str) -> dict[str, NDArray[Any]]:
        """A large answer as one array per column; NULLs must not occur."""
        found = self._execute(sql, None).fetchnumpy()
        return {name: np.asarray(column) for name, column in found.items()}

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
            if "interrupted" in str(error):  # DuckDB's word for Ctrl-C
                raise KeyboardInterrupt from error
            raise
        except duckdb.OutOfMemoryException as error:
            raise StorageError(
                f"the log does not fit: {_first_line(error)}. Raise the memory limit "
                "(--memory-limit 4GB), or name a working folder with more free space."
            ) from error


@contextlib.contextmanager
def opened(
    *,
    memory_limit: str,
    workdir: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Iterator[Engine]:
    """An `Engine` whose scratch folder (under `workdir`) is gone when the block ends."""
    with _scratch(workdir) as scratch:
        config: dict[str, Any] = {
            "memory_limit": memory_limit,
            "temp_directory": str(scratch / "spill"),
            "TimeZone": "UTC",  # a time without a zone means the same on every machine
            "autoinstall_known_extensions": "false",  # never reach for the network
        }
        if threads is not None:
            config["threads"] = str(threads)
        try:
            connection = duckdb.connect(config=config)
        except duckdb.Error as error:
            raise InvalidInput(f"DuckDB refused its settings: {_first_line(error)}.") from error
        try:
            # DuckDB counts its progress for us, but must never print: stdout belongs to the caller.
            connection.execute("SET enable_progress_bar_print = false")
            connection.execute(f"SET enable_progress_bar = {'true' if progress else 'false'}")
            engine = Engine(connection, scratch, progress)
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
            f"cannot work in {parent}: {error}. Name a folder that can be written."
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
            continue  # somebody is making or deleting it just now, or it is not ours to touch
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process is alive
        finally:
            os.close(lock)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0].rstrip(".")
