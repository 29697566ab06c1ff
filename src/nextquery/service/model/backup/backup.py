"""Backing up a store, and restoring it: each proves what it wrote before it says that it is done.

The proof of a backup: its events are those of the store, byte for byte, and a model computed from
them agrees with the newest snapshot. That model is saved in the backup as its snapshot. The proof
of a restoration: the events are those of the backup, and a model computed from them on this machine
agrees with that snapshot, at the same position.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.errors import Damaged, InvalidInput
from nextquery.service.log.database import Marker, file_of, store_id
from nextquery.service.log.schema import counter
from nextquery.service.log.store import Store
from nextquery.service.model.backup.copies import (
    check_seal,
    copy_of,
    copy_pages,
    digest_of,
    in_one_file,
    into_empty,
    on_disk,
    only_read,
    reading_file,
    seal,
    unseal,
)
from nextquery.service.model.rebuild import AGREE, Rebuilt, rebuild
from nextquery.service.model.snapshots import save_snapshot


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
