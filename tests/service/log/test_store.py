"""The store: its tables, its durability, and the databases it rejects."""

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from nextquery.errors import InvalidInput, StorageError
from nextquery.service.log.database import connect
from nextquery.service.log.schema import VERSION, metadata, store_version
from nextquery.service.log.store import Store


def test_an_empty_database_gets_the_tables_and_their_version(
    tmp_path: Path, empty_postgres_url: str
) -> None:
    for url in (f"sqlite:///{tmp_path / 'new.db'}", empty_postgres_url):
        with closing(Store.open(url)) as store:
            with store.reading() as connection:
                made = set(sa.inspect(connection).get_table_names())
                assert connection.execute(sa.select(store_version)).all() == [(VERSION,)]
            head = store.head()
            assert made == set(metadata.tables)
            assert head.position == 0
            with closing(Store.open(url, create=False)) as again:
                assert again.head() == head


@pytest.mark.parametrize(
    ("change", "which"),
    [
        ("UPDATE store_version SET version = 7", "version 7"),
        ("DELETE FROM store_version", r"no version number \(.*counter"),
        ("DROP TABLE store_version", r"no version number \(.*counter"),
    ],
)
def test_tables_of_another_version_are_refused(url: str, change: str, which: str) -> None:
    with closing(Store.open(url)) as store, store.writing() as connection:
        connection.exec_driver_sql(change)
    for create in (True, False):
        with pytest.raises(StorageError, match=f"{which}.* version {VERSION}. Use .* or pass"):
            Store.open(url, create=create)


def test_the_tables_of_another_program_stay_beside_ours(
    tmp_path: Path, empty_postgres_url: str
) -> None:
    for url in (f"sqlite:///{tmp_path / 'new.db'}", empty_postgres_url):
        engine = connect(url)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE theirs (x INTEGER)")
        engine.dispose()
        with pytest.raises(StorageError, match="has no event log"):
            Store.open(url, create=False)
        with closing(Store.open(url)) as store, store.reading() as connection:
            assert {"theirs", *metadata.tables} == set(sa.inspect(connection).get_table_names())


def test_sessions_are_looked_up_and_not_scanned_for(sqlite: Store) -> None:
    asked: list[tuple[str, Any]] = []

    def remember(*call: Any) -> None:
        asked.append((call[2], call[3]))

    sa.event.listen(sqlite.engine, "before_cursor_execute", remember)
    assert sqlite.last_of_sessions([("", "s"), ("shop", "s"), ("shop", "t")]) == {}
    sa.event.remove(sqlite.engine, "before_cursor_execute", remember)
    statement, values = asked[-1]
    with sqlite.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
    steps = [row[3] for row in plan]
    assert [step for step in steps if step.startswith("SCAN")] == []
    assert sum("(owner=? AND session_id=?)" in step for step in steps) == 2  # one per owner


def test_every_sqlite_connection_waits_for_the_disk(sqlite: Store) -> None:
    connections = [sqlite.engine.connect() for _ in range(12)]
    for connection in connections:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("synchronous", "journal_mode", "foreign_keys", "busy_timeout")
        }
        assert pragmas == {
            "synchronous": 2,
            "journal_mode": "wal",
            "foreign_keys": 1,
            "busy_timeout": 5000,
        }
        connection.close()


def test_a_writer_has_the_lock_from_its_start(sqlite: Store, sqlite_url: str) -> None:
    impatient = Store.open(sqlite_url, wait_s=0.01)
    with sqlite.writing(), pytest.raises(StorageError, match="locked"), impatient.writing():
        pass
    impatient.close()


def test_postgresql_confirms_only_what_is_on_the_disk(postgres_url: str) -> None:
    store = Store.open(postgres_url)
    with store.reading() as connection:
        for name in ("fsync", "synchronous_commit"):
            assert connection.execute(sa.text(f"SHOW {name}")).scalar() == "on"
    store.close()


def test_postgresql_that_may_lose_commits_is_refused(postgres_url: str) -> None:
    name = sa.make_url(postgres_url).database
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    with pytest.raises(StorageError, match="synchronous_commit = off"):
        Store.open(postgres_url)


def test_a_database_without_tables_is_not_a_store(empty_postgres_url: str, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    for url in (empty_postgres_url, f"sqlite:///{tmp_path / 'empty.db'}"):
        with pytest.raises(StorageError, match="no event log"):
            Store.open(url, create=False)


def test_a_file_that_cannot_be_a_store_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "noise.db").write_bytes(b"no database at all")
    for name, words in (("noise.db", "not an SQLite database"), ("no/x.db", "there is no folder")):
        with pytest.raises(StorageError, match=words):
            Store.open(f"sqlite:///{tmp_path / name}")
    with pytest.raises(StorageError, match="there is no event log"):
        Store.open(f"sqlite:///{tmp_path / 'typo.db'}", create=False)
    assert [path.name for path in tmp_path.iterdir()] == ["noise.db"]


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    Store.open(f"sqlite:///{tmp_path / 'e.db'}").close()
    assert (tmp_path / "e.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://x/y", "://"])
def test_urls_that_keep_nothing_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="path to an SQLite file"):
        Store.open(url)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StorageError) as error:
        Store.open("postgresql://bob:secret@localhost:1/none", wait_s=0.1)
    assert "secret" not in str(error.value)
