"""Back up and restore a store, with a proof of what was written.

A backup is an SQLite file with the tables of a store, whatever the store is. It can be opened,
queried, and restored into an empty SQLite or PostgreSQL store.

The proof of a backup: its events are those of the store, byte for byte. A model computed from
them agrees with the newest snapshot, and is saved in the backup as its snapshot. The proof of a
restoration: the events are those of the backup. A model computed from them on this machine agrees
with that snapshot, at the same position.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import sqlalchemy as sa

from nextquery.errors import Damaged, InvalidInput, StorageError
from nextquery.service.log.database import Marker, file_of, has_tables, store_id
from nextquery.service.log.schema import counter, events, keys, metadata
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import AGREE, Rebuilt, rebuild
from nextquery.service.model.learner import save_snapshot

_ROWS = 1000  # rows that are copied together
_SEAL = "backup"  # the table of a backup that has its digest


def copy_of(store: Store, file: Path) -> None:
    """Copy a store that is in use into a new SQLite file, as it was at one moment.

    SQLite's own backup copies pages. From PostgreSQL the tables are read in one transaction that
    sees one state of the log. Neither stops the service.
    """
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if store.engine.dialect.name == "sqlite":
        with closing(sqlite3.connect(str(store.engine.url.database))) as source:
            copy_pages(source, file)
        return
    copied = Store.open(f"sqlite:///{file}")
    try:
        engine = store.engine.execution_options(isolation_level="REPEATABLE READ")
        with engine.connect() as source_rows, source_rows.begin():
            _copy_tables(source_rows, copied)
    finally:
        copied.close()
    Marker(file).path.unlink()  # the new tables had a secret of their own


def seal(file: Path) -> None:
    """Write into a backup the digest of all its tables, so that any damage is found later."""
    with closing(sqlite3.connect(file)) as backup:
        found = _contents(backup)
        with backup:
            backup.execute(f"CREATE TABLE {_SEAL} (digest TEXT NOT NULL)")
            backup.execute(f"INSERT INTO {_SEAL} VALUES (?)", (found,))


def check_seal(file: Path) -> None:
    """Raise an error if a byte of any table of a backup is not what was backed up."""
    with closing(only_read(file)) as backup:
        try:
            sealed = backup.execute(f"SELECT digest FROM {_SEAL}").fetchall()
            same = sealed == [(_contents(backup),)]
            whole = backup.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok"
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if f"no such table: {_SEAL}" in str(error):
                raise _no_backup(file) from None
            same = whole = False
    if not (same and whole):
        raise Damaged(
            f"{file} is damaged: its tables are not those that were backed up. Nothing was "
            "written. Restore another copy of it, or an earlier backup."
        )


def unseal(file: Path) -> None:
    """Take the digest out of a copy of a backup: stores have none."""
    with closing(sqlite3.connect(file)) as copied, copied:
        copied.execute(f"DROP TABLE IF EXISTS {_SEAL}")


def _contents(file: sqlite3.Connection) -> str:
    """Return the SHA-256 of every table of a database, with its rows in their order."""
    digest = hashlib.sha256()
    tables = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name <> ? ORDER BY name"
    for table in file.execute(tables, (_SEAL,)).fetchall():
        digest.update(repr(table).encode())
        rows = file.execute(f'SELECT * FROM "{table[0]}" ORDER BY rowid')
        for row in rows:
            for value in row:
                data = value if isinstance(value, bytes) else repr(value).encode()
                digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def copy_pages(source: sqlite3.Connection, file: Path) -> None:
    """Copy an SQLite database into one file without companions, and wait until it is on disk."""
    with closing(sqlite3.connect(file)) as target:
        source.backup(target)
    in_one_file(file)


def in_one_file(file: Path) -> None:
    """End the write-ahead log of a database that nobody uses, and wait until it is on disk."""
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode=DELETE")
    on_disk(file)


def into_empty(file: Path, store: Store) -> None:
    """Copy the tables of a backup into a store that has no event and no key."""
    with store.reading() as connection:
        used = [
            table.name
            for table in (events, keys)
            if connection.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first()
        ]
    if used:
        raise InvalidInput(
            f"{store.name} is in use: it has rows in {' and '.join(used)}. Pass an empty database, "
            "or a new file."
        )
    with reading_file(file) as connection:
        _copy_tables(connection, store)


def _copy_tables(source: sa.Connection, target: Store) -> None:
    """Replace all rows of the target's tables by those of the source, in one transaction."""
    with target.writing(answer_s=None) as connection:
        for table in metadata.sorted_tables:
            connection.execute(sa.delete(table))
            found = source.execution_options(yield_per=_ROWS).execute(sa.select(table))
            for rows in found.mappings().partitions(_ROWS):
                connection.execute(sa.insert(table), [dict(row) for row in rows])


@contextmanager
def reading_file(file: Path) -> Iterator[sa.Connection]:
    """Open a backup without writing anything to it or beside it."""
    if not file.is_file():
        raise StorageError(
            f"there is no backup {file}. Pass the file that nextquery backup --out wrote."
        )
    engine = sa.create_engine("sqlite://", creator=lambda: only_read(file), poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            try:
                store = has_tables(connection, str(file))
            except sa.exc.DatabaseError:
                store = False
            if not store:
                raise _no_backup(file)
            yield connection
    finally:
        engine.dispose()


def _no_backup(file: Path) -> StorageError:
    return StorageError(
        f"{file} is not a backup of an event log, or it is damaged. Pass the file that nextquery "
        "backup --out wrote."
    )


def only_read(file: Path) -> sqlite3.Connection:
    """Open an SQLite file that nobody writes to, without companions."""
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)


def digest_of(connection: sa.Connection, until: int) -> str:
    """Return the SHA-256 of all events up to a position: equal logs have equal digests."""
    digest, after = hashlib.sha256(), 0
    columns = (
        *(events.c.position, events.c.kind, events.c.time),
        *(events.c.decision_id, events.c.body),
    )
    while True:
        page = sa.select(*columns).where(events.c.position > after, events.c.position <= until)
        rows: list[Any] = list(
            connection.execute(page.order_by(events.c.position).limit(_ROWS)).all()
        )
        for row in rows:
            digest.update(json.dumps([*row]).encode() + b"\n")
        if len(rows) < _ROWS:
            return digest.hexdigest()
        after = rows[-1].position


def on_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Proof(NamedTuple):
    """What was compared: events up to `position`, by digest, and the model there."""

    position: int
    digest: str
    difference: float


def backup(store: Store, out: Path) -> Proof:
    """Copy a store that may be in use to the new file `out`, with its proof."""
    _must_be_new(out)
    if store.head().position == 0:
        raise InvalidInput(f"{store.name} has no events. Run nextquery serve POOL first.")
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        file = Path(folder) / "copy.db"
        copy_of(store, file)
        copied = Store.open(f"sqlite:///{file}", create=False)
        try:
            done = rebuild(copied)
            position = done.state.position
            _must_agree(done, "the store's newest snapshot differs from its log")
            save_snapshot(copied, done.state, keep=1)
            with copied.reading() as theirs, store.reading() as ours:
                digest = digest_of(theirs, position)
                if digest != digest_of(ours, position):
                    raise Damaged(
                        f"the copy's events up to {position} differ from those of {store.name}: "
                        "something erased events meanwhile, or a disk is failing. Nothing was "
                        "written. Try again; if it fails again, check the disk."
                    )
        finally:
            copied.close()
        whole = Path(folder) / "whole.db"
        os.close(os.open(whole, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(file)) as source:
            copy_pages(source, whole)
        seal(whole)
        on_disk(whole)
        os.replace(whole, out)
        on_disk(out.parent)
    return Proof(position, digest, done.difference)


def restore(file: Path, url: str) -> Proof:
    """Make a store from a backup at a URL where none is, with its proof."""
    with reading_file(file) as connection:
        check_seal(file)
        row = connection.execute(sa.select(counter.c.position, counter.c.secret)).one()
        digest = digest_of(connection, row.position)
    path = file_of(url)
    if path is None:
        store = Store.open(url)
        try:
            into_empty(file, store)
            return _proved(store, row.position, digest)
        finally:
            store.close()
    _must_be_new(path)
    _must_be_alone(path)
    Marker(path).check(store_id(row.secret))  # or it is another store's place
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as folder:
        part = Path(folder) / path.name
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(only_read(file)) as source:
            copy_pages(source, part)
        unseal(part)
        store = Store.open(f"sqlite:///{part}", create=False)
        try:
            proof = _proved(store, row.position, digest)
        finally:
            store.close()
        in_one_file(part)
        os.replace(part, path)
        on_disk(path.parent)
    Store.open(url, create=False).close()  # it gets its marker
    return proof


def _proved(store: Store, position: int, digest: str) -> Proof:
    done = rebuild(store)
    with store.reading() as connection:
        same = digest_of(connection, position) == digest
    if not same or not position == done.state.position == done.snapshot:
        raise Damaged(
            f"{store.name} does not have the {position} events of the backup. Do not serve it: "
            "check the disk, delete it, and restore again."
        )
    _must_agree(done, "the model computed here differs from the one in the backup")
    return Proof(position, digest, done.difference)


def _must_agree(done: Rebuilt, what: str) -> None:
    if not done.agrees:
        raise Damaged(
            f"{what} by {done.difference:g}; at most {AGREE:g} is allowed. Trust the log: run "
            "nextquery rebuild POOL --save on that store, and try again."
        )


def _must_be_new(path: Path) -> None:
    if path.exists() or not path.parent.is_dir():
        why = "exists already" if path.exists() else f"lies in no folder ({path.parent})"
        raise InvalidInput(
            f"{path} {why}. Pass the path of a new file in an existing folder; nothing is "
            "overwritten."
        )


def _must_be_alone(path: Path) -> None:
    """Raise an error if companions of a lost database would become part of the new one."""
    names = [f"{path.name}{end}" for end in ("-wal", "-shm", "-journal")]
    if left := [name for name in names if path.with_name(name).exists()]:
        raise InvalidInput(
            f"{' and '.join(left)} in {path.parent} are of a database that is gone, and SQLite "
            f"would mix them into {path.name}. Move them away, to where that database is now, "
            "or restore to another path."
        )
