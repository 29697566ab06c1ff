"""The tables of a store: whether they are there, which version they have, and making them."""

import secrets

import sqlalchemy as sa

from nextquery.errors import StorageError
from nextquery.service.log.schema import VERSION, counter, metadata, store_version

_CREATING = 0x6E657874  # the key of our advisory lock in PostgreSQL


def has_tables(connection: sa.Connection, name: str) -> bool:
    """Whether a database has the tables of a store; those of another version are an error."""
    ours = metadata.tables.keys() & set(sa.inspect(connection).get_table_names())
    if not ours:
        return False
    known = store_version.name in ours
    found = connection.execute(sa.select(store_version.c.version)).scalar() if known else None
    if found != VERSION:
        tables = ", ".join(sorted(ours))
        which = f"no version number ({tables})" if found is None else f"version {found}"
        raise StorageError(
            f"the tables of {name} have {which}; this nextquery uses version {VERSION}. Use the "
            "nextquery that wrote them, or pass another store: a new file, or an empty database."
        )
    return True


def create_tables(connection: sa.Connection, name: str) -> None:
    """Make the tables, once, even if several processes start together."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")  # wait for another that makes them
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATING)))
    if has_tables(connection, name):
        return
    metadata.create_all(connection, checkfirst=False)
    positions = dict.fromkeys(("position", "next_arm", "barrier", "model", "erased", "cleaned"), 0)
    start = {"id": 1, **positions, "clock": 0.0, "secret": secrets.token_hex(32)}
    connection.execute(sa.insert(counter), [start])
    connection.execute(sa.insert(store_version), [{"version": VERSION}])
