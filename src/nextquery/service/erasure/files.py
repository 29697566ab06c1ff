"""Erase what remains in files after an erasure: freed database pages and old exports.

A database marks deleted rows as free and leaves their bytes in its file and in the write-ahead
log. SQLite rewrites its file with VACUUM, and its log is then emptied. PostgreSQL does the same
for its tables with VACUUM FULL. Its WAL, replicas and backups are out of reach.

Files that `nextquery export --out` wrote are recorded, and an erasure writes them again. They are
recorded before anything is written, so an erasure also finds the files of an export that was
killed.
"""

import os
import platform
import sqlite3
from collections import deque
from pathlib import Path
from typing import BinaryIO, NamedTuple

import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.catalogue.catalogue import Catalogue
from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.service.exchange.export import export_pages, pool_by_id
from nextquery.service.log.database import database_errors
from nextquery.service.log.schema import counter, exports, metadata
from nextquery.service.log.store import Store


class RewrittenExports(NamedTuple):
    """What became of the exports.

    Written anew; on machines that only they can reach (as ``HOST:PATH``); deleted, because they
    cannot be made any more; and why others could not be written.
    """

    files: list[str]
    elsewhere: list[str]
    deleted: list[str]
    problems: list[str]


def write(store: Store, sink: BinaryIO, format: str, pool: str | None = None) -> None:
    """Write an export; `pool` is the folder that some formats need."""
    catalogue = None if pool is None else Catalogue(pool_by_id(store, ArmPool.open(pool)))
    deque(export_pages(format, store, sink, catalogue), maxlen=0)


def export_to(store: Store, path: Path, format: str, pool: str | None = None) -> None:
    """Write an export to a file, and remember where it is.

    An older file is kept until the new one is complete. If somebody was forgotten meanwhile, it is
    written once more.
    """
    part, again = _part(path), True
    while again:
        before = _erased(store)
        _remember(store, path, format, pool)
        try:
            with part.open("wb") as sink:
                write(store, sink, format, pool)
            os.replace(part, path)
        except FileNotFoundError:  # an erasure deleted the part, which may have known somebody
            if _erased(store) == before:
                raise
        finally:
            part.unlink(missing_ok=True)
        again = _erased(store) != before


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def rewrite_exports(store: Store) -> RewrittenExports:
    """Write every remembered export of this machine anew; forget those that are gone.

    One that cannot be made any more, because its pool is gone, is deleted: nobody can say what of
    it may stay. No problem with one of them keeps the others as they were.
    """
    made = RewrittenExports([], [], [], [])
    with store.reading() as connection:
        rows = connection.execute(sa.select(exports).order_by(exports.c.path)).all()
    for row in rows:
        path = Path(row.path)
        if row.host != platform.node():
            made.elsewhere.append(f"{row.host}:{path}")
            continue
        try:
            _rewrite_export(store, path, row.format, row.pool, made)
        except StoreUnavailable:
            raise
        except OSError as error:
            made.problems.append(f"{path}: {error.strerror or error}")
    return made


def _rewrite_export(
    store: Store, path: Path, format: str, pool: str | None, made: RewrittenExports
) -> None:
    left = _part(path).is_file()
    _part(path).unlink(missing_ok=True)
    if path.is_file():
        try:
            export_to(store, path, format, pool)
            made.files.append(str(path))
            return
        except StoreUnavailable:
            raise
        except NextqueryError:
            path.unlink()
            made.deleted.append(str(path))
    if not left:  # else it may be being written
        same = (exports.c.path == str(path), exports.c.host == platform.node())
        with store.writing() as connection:
            connection.execute(sa.delete(exports).where(*same))


def _remember(store: Store, path: Path, format: str, pool: str | None) -> None:
    named = {"path": str(path.absolute()), "host": platform.node()}
    same = (exports.c.path == named["path"], exports.c.host == named["host"])
    of_pool = None if pool is None else str(Path(pool).absolute())
    with store.writing() as connection:
        clock = connection.execute(sa.select(counter.c.clock)).scalar_one()
        connection.execute(sa.delete(exports).where(*same))
        row = sa.insert(exports).values(**named, format=format, pool=of_pool, time=clock)
        connection.execute(row)


def _erased(store: Store) -> int:
    with store.reading() as connection:
        return int(connection.execute(sa.select(counter.c.erased)).scalar_one())


class CleanedFiles(NamedTuple):
    """Exports written anew, those on other machines, and those that were deleted because they
    cannot be made any more; `vacuumed`: whether it was necessary."""

    vacuumed: bool
    exports: list[str]
    elsewhere: list[str]
    deleted: list[str]


NOT_NECESSARY = CleanedFiles(False, [], [], [])


def needs_cleaning(store: Store) -> bool:
    """Whether there was an erasure whose bytes may still be in the files."""
    with store.reading() as connection:
        row = connection.execute(sa.select(counter.c.erased, counter.c.cleaned)).one()
    return bool(row.erased > row.cleaned)


def clean(store: Store) -> CleanedFiles:
    """Write the exports anew, then the files of the database, if an erasure made it necessary.

    Other processes wait while the database is written: seconds for each gigabyte of SQLite.
    """
    with store.reading() as connection:
        erased = int(connection.execute(sa.select(counter.c.erased)).scalar_one())
    if not needs_cleaning(store):
        return NOT_NECESSARY
    remade: RewrittenExports = rewrite_exports(store)
    if store.engine.dialect.name == "sqlite":
        _vacuum_sqlite(store)
    else:
        _vacuum_postgres(store)
    if remade.problems:
        raise StoreUnavailable(
            f"{len(remade.problems)} exports could not be written anew, and may still have what "
            f"was erased: {'; '.join(remade.problems)}. Delete them, or make room, then run "
            "nextquery forget --clean. The files of the store are clean."
        )
    with store.writing() as connection:
        older = sa.update(counter).where(counter.c.cleaned < erased)
        connection.execute(older.values(cleaned=erased))
    return CleanedFiles(True, remade.files, remade.elsewhere, remade.deleted)


def _vacuum_sqlite(store: Store) -> None:
    store.check_file()
    with store.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        try:
            driver.execute("VACUUM")
            busy = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except sqlite3.Error as error:
            raise _not_cleaned(f"{store.name} could not be written anew: {error}") from None
    store.check_file()
    if busy:
        raise _not_cleaned(f"another process was reading {store.name}")


def _vacuum_postgres(store: Store) -> None:
    tables = ", ".join(table.name for table in metadata.sorted_tables)
    with (
        database_errors(),
        store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
    ):
        connection.exec_driver_sql("SET statement_timeout = 0")
        driver = connection.connection.driver_connection
        usual = driver.answer_s  # type: ignore[union-attr]
        try:
            driver.answer_s = None  # type: ignore[union-attr]
            connection.exec_driver_sql(f"VACUUM (FULL) {tables}")
        finally:
            driver.answer_s = usual  # type: ignore[union-attr]
            connection.exec_driver_sql("RESET statement_timeout")


def _not_cleaned(why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{why}. What was erased is gone from the log, and its bytes may still be in the files. "
        "Run nextquery forget --clean when nobody uses the store much."
    )
