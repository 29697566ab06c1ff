"""After an erasure: what it left in the files of the store goes too.

A database marks deleted rows as free and leaves their bytes where they were: in its file, and in
the write-ahead log. SQLite writes its file anew with VACUUM, and its log is then emptied.
PostgreSQL does the same for its tables with VACUUM FULL; its WAL, replicas and backups are beyond
us.
"""

import sqlite3
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.errors import StoreUnavailable
from nextquery.service.log.database import database_errors
from nextquery.service.log.erasure.exports import Remade, write_anew
from nextquery.service.log.schema import counter, metadata
from nextquery.service.log.store import Store


class Cleaned(NamedTuple):
    """Exports written anew, those on other machines, and those that were deleted because they
    cannot be made any more; `vacuumed`: whether it was necessary."""

    vacuumed: bool
    exports: list[str]
    elsewhere: list[str]
    deleted: list[str]


NOT_NECESSARY = Cleaned(False, [], [], [])


def needs_cleaning(store: Store) -> bool:
    """Whether there was an erasure whose bytes may still be in the files."""
    with store.reading() as connection:
        row = connection.execute(sa.select(counter.c.erased, counter.c.cleaned)).one()
    return bool(row.erased > row.cleaned)


def clean(store: Store) -> Cleaned:
    """Write the exports anew, then the files of the database, if an erasure made it necessary.

    Other processes wait while the database is written: seconds for each gigabyte of SQLite.
    """
    with store.reading() as connection:
        erased = int(connection.execute(sa.select(counter.c.erased)).scalar_one())
    if not needs_cleaning(store):
        return NOT_NECESSARY
    remade: Remade = write_anew(store)
    if store.engine.dialect.name == "sqlite":
        _write_sqlite_anew(store)
    else:
        _write_postgres_anew(store)
    if remade.problems:
        raise StoreUnavailable(
            f"{len(remade.problems)} exports could not be written anew, and may still have what "
            f"was erased: {'; '.join(remade.problems)}. Delete them, or make room, then run "
            "nextquery forget --clean. The files of the store are clean."
        )
    with store.writing() as connection:
        older = sa.update(counter).where(counter.c.cleaned < erased)
        connection.execute(older.values(cleaned=erased))
    return Cleaned(True, remade.files, remade.elsewhere, remade.deleted)


def _write_sqlite_anew(store: Store) -> None:
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


def _write_postgres_anew(store: Store) -> None:
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
