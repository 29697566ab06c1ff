"""Checks of everything that the service needs: machine, pool and store, with what to do.

- The machine: Python and packages, the clock, open files.
- The pool: every byte, its encoder, and who may change it.
- The store: its disk and its tables, without changing it.
"""

import os
import platform
import resource
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import sqlalchemy as sa
from packaging.requirements import Requirement

from nextquery import folders
from nextquery.arms import ArmPool
from nextquery.errors import NextqueryError
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.limits import most_connections
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
from nextquery.service.model.learner import snapshot_is_whole
from nextquery.service.model.prepare import check_pool
from nextquery.service.server import keys_needed
from nextquery.service.settings import Settings

State = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """One checked thing: what was found and, if it is not right, what to do."""

    name: str
    state: State
    found: str
    todo: str = ""


def ok(name: str, found: str) -> Finding:
    """Return a finding that is right.

    >>> ok("clock", "2026-11-19").state
    'ok'
    """
    return Finding(name, "ok", found)


def warning(name: str, found: str, todo: str) -> Finding:
    """Return a finding that the service can live with."""
    return Finding(name, "warning", found, todo)


def problem(name: str, found: str, todo: str) -> Finding:
    """Return a finding with which the service does not start, or may lose something."""
    return Finding(name, "problem", found, todo)


def checked(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Return what a check found; an error of ours or of a file is a problem, not the end."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except NextqueryError as error:
        what, _, todo = str(error).partition(". ")
        found.append(
            problem(name, what.rstrip("."), f"{todo.rstrip('.')}." if todo else "See the message.")
        )
    except OSError as error:
        found.append(problem(name, str(error), "Check that path and its rights."))
    return found


EXTRAS = ("service", "postgres", "ingest", "trained", "cluster", "otel")
_FEW_FILES = 1024
_DATE_LOST = 1_735_689_600.0  # 2025-01-01, as in `log.clock`


def check_versions(settings: Settings) -> Iterator[Finding]:
    """Python, nextquery, and the packages of the extras that are installed or needed."""
    yield ok("python", f"{platform.python_version()}, nextquery {version('nextquery')}")
    for extra in EXTRAS:
        needed = extra == "service" or (extra == "postgres" and "postgres" in settings.store)
        needed |= extra == "cluster" and settings.cluster is not None
        yield _extra(extra, needed=needed)


def _extra(extra: str, *, needed: bool) -> Finding:
    name = f"extra {extra}"
    wanted = [Requirement(line) for line in requires("nextquery") or ()]
    wrong, found = [], []
    for each in wanted:
        if each.marker is None or not each.marker.evaluate({"extra": extra}):
            continue
        if each.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(each.name)
        except PackageNotFoundError:
            wrong.append(f"{each.name} is missing")
            continue
        found.append(f"{each.name} {installed}")
        if not each.specifier.contains(installed, prereleases=True):
            wrong.append(f"{each.name} is {installed}, needed is {each.specifier}")
    if wrong and (needed or (found and "missing" not in " ".join(wrong))):
        return problem(name, "; ".join(wrong), f"Run pip install 'nextquery[{extra}]'.")
    return ok(name, "not installed, and not needed here" if wrong else ", ".join(found))


def check_clock() -> Iterator[Finding]:
    """The date of the machine."""
    now = time.time()
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < _DATE_LOST:
        yield problem("clock", f"it is {shown}", "Set the date: start chrony or systemd-timesyncd.")
    else:
        yield ok("clock", shown)


def check_files(settings: Settings) -> Iterator[Finding]:
    """How many files the process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = most_connections(settings.max_connections)  # raises if there is no room
    found = f"{soft} open files, so {connections} connections per worker"
    if soft < _FEW_FILES:
        most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
        here = f"Run ulimit -n {most}" if most > soft else "Let root raise this user's limit"
        todo = f"{here}, or set LimitNOFILE=65536 in the systemd unit."
        yield warning("open files", found, todo)
    else:
        yield ok("open files", found)


def check_supported() -> Iterator[Finding]:
    """Whether this is a system that the service is tested on."""
    if sys.platform.startswith("linux"):
        yield ok("system", platform.platform())
    else:
        todo = "Expect surprises: only Linux is tested."
        yield warning("system", platform.platform(), todo)


_SAMPLED = 5  # arms whose text is encoded again
_SAME = 0.99
_OTHERS_MAY_WRITE = 0o022


def pool_findings(path: Path) -> Iterator[Finding]:
    """Every byte against the manifest, and the encoder against the vectors."""
    _, folder = folders.read_any(path)
    if damaged := folder.problems():
        yield problem(
            "pool",
            f"{len(damaged)} files of {path} are damaged: {', '.join(sorted(damaged))}",
            "Restore the folder from a backup, or ingest the log again.",
        )
        return
    pool = ArmPool.open(path)
    yield ok("pool", f"{len(pool):,} arms with {pool.dim} numbers each, {path}")
    yield _encoder(pool)
    loose = [each for each in (path, *path.iterdir()) if each.stat().st_mode & _OTHERS_MAY_WRITE]
    if loose:
        yield warning(
            "pool rights",
            f"others may change {loose[0]}" + (" and more" if len(loose) > 1 else ""),
            f"Run chmod -R go-w {path}.",
        )
    else:
        yield ok("pool rights", "only its owner may change it")


def _encoder(pool: ArmPool) -> Finding:
    if pool.encoder is None:
        todo = "Queries that are no arms get no answer; ingest with an encoder to answer them."
        return warning("encoder", "the pool has none", todo)
    arms = [int(arm) for arm in pool.live(np.arange(min(_SAMPLED, len(pool))))]
    rows = np.asarray(pool.encoder.encode([pool.texts[arm] for arm in arms]), np.float64)
    if rows.shape != (len(arms), pool.dim) or not np.isfinite(rows).all():
        return problem(
            "encoder",
            f"it gives rows of {rows.shape[-1]} numbers, and the pool has {pool.dim}",
            "Ingest the log again.",
        )
    lengths = np.linalg.norm(rows, axis=1)
    own = np.einsum("ij,ij->i", rows, np.asarray(pool.rows(arms), np.float64))
    near = float(np.median(own / np.where(lengths > 0, lengths, 1.0))) if arms else 1.0
    found = f"{type(pool.encoder).__name__}, similarity {near:.3f} to the pool's own vectors"
    if near < _SAME:
        todo = "The vectors come from another encoder; typed queries may be placed wrongly."
        return warning("encoder", found, todo)
    return ok("encoder", found)


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
            result = str(file.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.DatabaseError as error:
            result = str(error)
    if result == "ok":
        return ok("database", "quick_check found nothing")
    todo = "Stop the service and restore a backup: nextquery restore FILE --store URL."
    return problem("database", result, todo)


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


def examine(settings: Settings, pool: Path) -> list[Finding]:
    """Return what every check found; none of them changes anything."""
    found = checked("system", check_supported)
    found += checked("versions", lambda: check_versions(settings))
    found += checked("clock", check_clock)
    found += checked("open files", lambda: check_files(settings))
    found += checked("pool", lambda: pool_findings(pool))
    found += checked("disk", lambda: check_disk(settings))
    found += checked("store", lambda: check_store(settings, _opened(pool)))
    return found


def _opened(pool: Path) -> ArmPool | None:
    try:
        return ArmPool.open(pool)
    except (NextqueryError, OSError):
        return None  # a check of the pool says so
