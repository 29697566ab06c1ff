"""Checks of the store, without changing it."""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.service.doctor.findings import Finding, ok, problem, warning
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.database import (
    Marker,
    connect,
    database_errors,
    file_of,
    has_tables,
    store_id,
    without_password,
)
from nextquery.service.log.schema import events, snapshots
from nextquery.service.log.store import AHEAD_S, Store
from nextquery.service.model.prepare import check_pool
from nextquery.service.model.snapshots import snapshot_is_whole
from nextquery.service.server import keys_needed
from nextquery.service.settings import Settings

_TIGHT, _LITTLE = 100 << 20, 1 << 30  # bytes left on the disk
_APART_S = 5.0  # seconds that the database's clock may differ
_OTHERS = 0o077


def check_disk(settings: Settings) -> Iterator[Finding]:
    """The room where the store lies, and who may read its files."""
    path = file_of(settings.store)
    if path is None:
        yield ok("disk", "the database is a server: watch its disk there")
        return
    folder = path.parent
    free = shutil.disk_usage(folder).free
    size = path.stat().st_size if path.exists() else 0
    found = f"{free / 2**30:.1f} GiB free in {folder}; the store has {size / 2**20:.0f} MiB"
    if free < _TIGHT:
        yield problem("disk", found, "Make room: a full disk means 503 for every request.")
    elif free < max(_LITTLE, size):
        yield warning("disk", found, "Make room soon; a backup needs as much as the store.")
    else:
        yield ok("disk", found)
    if not os.access(folder, os.W_OK | os.X_OK):
        yield problem("store rights", f"{folder} cannot be written", f"Let {_me()} write there.")
    ends = ("", "-wal", "-shm", "-store.json")
    loose = [file for end in ends if _for_others(file := path.with_name(path.name + end))]
    if loose:
        todo = f"Run chmod 600 {' '.join(map(str, loose))}."
        yield warning("store rights", f"others may read {loose[0]}", todo)
    elif path.exists():
        yield ok("store rights", "only its owner may read it")


def check_store(settings: Settings, pool: ArmPool | None) -> Iterator[Finding]:
    """The database, its version, its log, its snapshots, and whether the pool fits."""
    path = file_of(settings.store)
    name = without_password(settings.store)
    marker = None if path is None else Marker(path)
    if path is not None and not path.exists():
        if marker is not None and marker.store is not None:
            raise marker.missing()
        yield ok("store", f"{name} does not exist yet; nextquery serve creates it")
        return
    if path is not None:
        state = _intact(path)
        yield state
        if state.state != "ok":
            return
    if not _has_tables(settings.store):
        yield warning("store", f"{name} is empty", "Start nextquery serve, which makes the tables.")
        return
    store = Store(connect(settings.store))  # not `open`, which takes away the rights of others
    try:
        if marker is not None:
            marker.check(store_id(store.head().secret))
        yield ok("store", f"{name}, {store.head().position:,} events")
        yield from _log(store)
        yield from _clock(store)
        if pool is not None and store.head().position:
            check_pool(store, pool, or_next=True)  # raises if it is another pool
            yield ok("pool of the store", "the store goes with this pool")
        ring = KeyRing(store)
        keys = keys_needed(settings, ring)  # raises if there must be one
        yield ok("keys", "requests need none here" if keys is None else "requests need a key")
    finally:
        store.close()


def _intact(path: Path) -> Finding:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as file:
        try:
            said = str(file.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            said = str(error)
    if said == "ok":
        return ok("database", "quick_check found nothing")
    todo = "Stop the service and restore a backup: nextquery restore FILE --store URL."
    return problem("database", said, todo)


def _has_tables(url: str) -> bool:
    engine = connect(url)
    try:
        with database_errors(), engine.connect() as connection, connection.begin():
            return has_tables(connection, without_password(url))
    finally:
        engine.dispose()


def _log(store: Store) -> Iterator[Finding]:
    """Whether positions have no gap, and whether a start can read the end of the log."""
    head = store.head().position
    with store.reading() as connection:
        count = connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one()
        newest = connection.execute(sa.select(sa.func.max(snapshots.c.position))).scalar() or 0
    if count != head:
        todo = "Run nextquery rebuild POOL --store URL --repair, or restore a backup."
        yield problem("log", f"{head} positions, and {count} events", todo)
        return
    if newest and not snapshot_is_whole(store, newest):
        todo = "Run nextquery rebuild POOL --store URL --save; until then a start reads the log."
        yield warning("snapshot", f"the newest one, at {newest:,}, is damaged", todo)
        newest = 0
    after = newest
    while page := store.read(after):  # raises if one cannot be read: a start would, too
        after = page[-1].position
    yield ok("log", f"no gap; the newest snapshot is at {newest:,} of {head:,}")


def _clock(store: Store) -> Iterator[Finding]:
    head = store.head()
    ahead = head.clock - time.time()
    if ahead > AHEAD_S:
        when = datetime.fromtimestamp(head.clock, UTC).strftime("%Y-%m-%d %H:%M UTC")
        yield warning(
            "clock of the log",
            f"the newest event is dated {when}",
            "A process had a wrong date. Check this machine's clock; times go back once, and "
            "positions keep the order.",
        )
    if store.engine.dialect.name == "postgresql":
        with store.reading() as connection:
            theirs = float(
                connection.execute(sa.text("SELECT extract(epoch FROM now())")).scalar_one()
            )
        apart = abs(theirs - time.time())
        if apart > _APART_S:
            todo = "Let both machines follow the same time server."
            yield warning("clock of the database", f"{apart:.0f} s apart", todo)


def _for_others(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & _OTHERS)


def _me() -> str:
    return f"the user with id {os.getuid()}"
