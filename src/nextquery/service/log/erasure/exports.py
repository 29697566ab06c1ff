"""The files that `nextquery export --out` wrote: remembered, and written anew by an erasure.

They are remembered before anything is written, so an erasure also finds what an export that was
killed left behind.
"""

import os
import platform
from collections import deque
from pathlib import Path
from typing import BinaryIO, NamedTuple

import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.catalogue.catalogue import Catalogue
from nextquery.errors import NextqueryError, StoreUnavailable
from nextquery.service.log.exchange.arms import pool_by_id
from nextquery.service.log.exchange.formats import export_pages
from nextquery.service.log.schema import counter, exports
from nextquery.service.log.store import Store


class Remade(NamedTuple):
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


def write_anew(store: Store) -> Remade:
    """Write every remembered export of this machine anew; forget those that are gone.

    One that cannot be made any more, because its pool is gone, is deleted: nobody can say what of
    it may stay. No problem with one of them keeps the others as they were.
    """
    made = Remade([], [], [], [])
    with store.reading() as connection:
        rows = connection.execute(sa.select(exports).order_by(exports.c.path)).all()
    for row in rows:
        path = Path(row.path)
        if row.host != platform.node():
            made.elsewhere.append(f"{row.host}:{path}")
            continue
        try:
            _write_one_anew(store, path, row.format, row.pool, made)
        except StoreUnavailable:
            raise
        except OSError as error:
            made.problems.append(f"{path}: {error.strerror or error}")
    return made


def _write_one_anew(store: Store, path: Path, format: str, pool: str | None, made: Remade) -> None:
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
