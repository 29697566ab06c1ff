"""The files that `nextquery export --out` wrote: remembered, and written anew by an erasure."""

import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import sqlalchemy as sa

from nextquery.service.log.export import write_ubi
from nextquery.service.log.export_parquet import write_parquet
from nextquery.service.log.schema import counter, exports
from nextquery.service.log.store import Store

WRITERS: dict[str, Callable[[Store, BinaryIO], None]] = {
    "ubi": write_ubi,
    "parquet": write_parquet,
}


class Remade(NamedTuple):
    """Exports written anew, and those that only another machine can reach (as ``HOST:PATH``)."""

    files: list[str]
    elsewhere: list[str]


def export_to(store: Store, path: Path, format: str) -> None:
    """Write an export to a file, and remember where it is.

    An older file is kept until the new one is complete. If somebody was forgotten meanwhile, it is
    written once more.
    """
    part = path.with_name(f".{path.name}.part")
    _remember(store, path, format)
    while True:
        before = _erased(store)
        try:
            with part.open("wb") as sink:
                WRITERS[format](store, sink)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        if _erased(store) == before:
            return


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
            path.with_name(f".{path.name}.part").unlink(missing_ok=True)
            export_to(store, path, row.format)
            done.append(str(path))
        else:
            same = (exports.c.path == row.path, exports.c.host == row.host)
            with store.writing() as connection:
                connection.execute(sa.delete(exports).where(*same))
    return Remade(done, elsewhere)


def _remember(store: Store, path: Path, format: str) -> None:
    named = {"path": str(path.absolute()), "host": platform.node()}
    same = (exports.c.path == named["path"], exports.c.host == named["host"])
    with store.writing() as connection:
        clock = connection.execute(sa.select(counter.c.clock)).scalar_one()
        connection.execute(sa.delete(exports).where(*same))
        connection.execute(sa.insert(exports).values(**named, format=format, time=clock))


def _erased(store: Store) -> int:
    with store.reading() as connection:
        return int(connection.execute(sa.select(counter.c.erased)).scalar_one())
