"""The files that `nextquery export --out` wrote: remembered, and written anew by an erasure."""

import os
import platform
from collections import deque
from pathlib import Path
from typing import BinaryIO, NamedTuple

import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.catalogue import Catalogue
from nextquery.service.log.exchange.arms import pool_by_id
from nextquery.service.log.exchange.formats import export_pages
from nextquery.service.log.schema import counter, exports
from nextquery.service.log.store import Store


class Remade(NamedTuple):
    """Exports written anew, and those that only another machine can reach (as ``HOST:PATH``)."""

    files: list[str]
    elsewhere: list[str]


def write(store: Store, sink: BinaryIO, format: str, pool: str | None = None) -> None:
    """Write an export; `pool` is the folder that some formats need."""
    catalogue = None if pool is None else Catalogue(pool_by_id(store, ArmPool.open(pool)))
    deque(export_pages(format, store, sink, catalogue), maxlen=0)


def export_to(store: Store, path: Path, format: str, pool: str | None = None) -> None:
    """Write an export to a file, and remember where it is.

    An older file is kept until the new one is complete. If somebody was forgotten meanwhile, it is
    written once more.
    """
    part = path.with_name(f".{path.name}.part")
    again = True
    while again:
        before = _erased(store)
        try:
            with part.open("wb") as sink:
                write(store, sink, format, pool)
            _remember(store, path, format, pool)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        again = _erased(store) != before


def write_anew(store: Store) -> Remade:
    """Write every remembered export of this machine anew; forget those that are gone."""
    done, elsewhere = [], []
    with store.reading() as connection:
        rows = connection.execute(sa.select(exports).order_by(exports.c.path)).all()
    for row in rows:
        path = Path(row.path)
        if row.host != platform.node():
            elsewhere.append(f"{row.host}:{path}")
        elif path.is_file():
            export_to(store, path, row.format, row.pool)
            done.append(str(path))
        else:
            same = (exports.c.path == row.path, exports.c.host == row.host)
            with store.writing() as connection:
                connection.execute(sa.delete(exports).where(*same))
    return Remade(done, elsewhere)


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
