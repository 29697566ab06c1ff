"""Bringing the tables of a store to the version of this program."""

from functools import cache

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from nextquery.errors import StorageError

_MIGRATING = 0x6E657874  # the key of our advisory lock in PostgreSQL


def alembic_config() -> Config:
    """Return where the migrations are."""
    config = Config()
    config.set_main_option("script_location", "nextquery.service.log:migrations")
    return config


@cache
def _scripts() -> ScriptDirectory:
    """Return the migrations, which Alembic would read again for every look at them."""
    return ScriptDirectory.from_config(alembic_config())


def is_current(connection: sa.Connection, name: str) -> bool:
    """Whether the tables have the version of this program; a newer version is an error."""
    known = [revision.revision for revision in _scripts().walk_revisions()]  # the newest first
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in known:
        raise StorageError(
            f"{name} was written by a newer version of nextquery: its tables have version {found}, "
            f"and this program knows versions up to {known[0]}. Install the newer version, or pass "
            "another store."
        )
    return found == known[0]


def upgrade(connection: sa.Connection, name: str) -> None:
    """Bring the tables up to date, once, even if several processes start together."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")  # another may migrate for minutes
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATING)))
    if not is_current(connection, name):
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
