"""An open database: it is checked when it is opened, and gives out transactions."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Self

import sqlalchemy as sa

from nextquery.errors import StorageError
from nextquery.service.log.database.connect import (
    WRITES,
    check_durable,
    connect,
    file_of,
    without_password,
)
from nextquery.service.log.database.errors import database_errors
from nextquery.service.log.database.marker import Marker, store_id
from nextquery.service.log.database.sqlite_file import SqliteFile, check_file
from nextquery.service.log.database.upgrade import create_tables, has_tables
from nextquery.service.log.schema import counter

_USUAL_S = -1.0  # as long as the store allows for every statement


class OpenDatabase:
    """Connections to SQLite or PostgreSQL, with tables of the right version."""

    def __init__(self, engine: sa.Engine, file: SqliteFile | None = None) -> None:
        self.engine, self._file = engine, file
        self._writing = engine.execution_options(**{WRITES: True})
        if file is not None:  # no connection may open another file
            sa.event.listen(engine, "connect", lambda *_: file.check())

    @classmethod
    def open(
        cls, url: str, *, create: bool = True, wait_s: float = 5.0, answer_s: float = 10.0
    ) -> Self:
        """Connect, check that commits are durable, and make the tables in an empty database.

        Parameters
        ----------
        url : a path, ``sqlite:///path`` or ``postgresql://…``.
        create : whether to create a missing database; otherwise it is an error.
        wait_s : seconds to wait for a locked or unreachable database.
        answer_s : seconds in which PostgreSQL must answer a statement.
        """
        path = file_of(url)
        marker, file = None, None
        if path is not None:
            marker = Marker(path)  # read first, see there
            if marker.store is not None and not path.exists():
                raise marker.missing()
            check_file(path, create=create)
            file = SqliteFile(path, wait_s=wait_s)
        store = cls(connect(url, wait_s=wait_s, answer_s=answer_s), file)
        try:
            store._prepare(marker, create=create)
        except BaseException:
            store.close()
            raise
        return store

    def _prepare(self, marker: Marker | None, *, create: bool) -> None:
        with self.reading() as connection:
            check_durable(connection)
            empty = not has_tables(connection, self.name)
        if empty and marker is not None:
            marker.check(None)
        if empty and not create:
            raise StorageError(
                f"{self.name} has no event log. Pass the store that the service writes to, or "
                "start `nextquery serve` to create one."
            )
        if empty:
            with self.writing(answer_s=None) as connection:
                create_tables(connection, self.name)
        if marker is not None:
            found = store_id(self._secret())
            marker.check(found)
            marker.write(found)

    def _secret(self) -> str:
        with self.reading() as connection:
            return str(connection.execute(sa.select(counter.c.secret)).scalar_one())

    @property
    def name(self) -> str:
        """The address of the database, without its password."""
        return without_password(self.engine.url.render_as_string(hide_password=True))

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a transaction that only reads."""
        self.check_file()
        with database_errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, *, answer_s: float | None = _USUAL_S) -> Iterator[sa.Connection]:
        """Open a transaction that writes; on SQLite it holds the lock from its start.

        Whoever leaves it without an error may confirm what was written. `answer_s` is how long
        PostgreSQL may take for one statement, if not as long as usual; None means without limit.
        """
        self.check_file()
        with (
            database_errors() as phase,
            self._writing.connect() as connection,
            connection.begin(),
            _patience(connection, answer_s),
        ):
            yield connection
            phase.committing = True
        self.check_file()  # a commit to a deleted file is lost

    def check_file(self) -> None:
        """Raise an error if the database's file was deleted or replaced."""
        if self._file is not None:
            self._file.check()

    def close(self) -> None:
        """Close the connections."""
        self.engine.dispose()
        if self._file is not None:
            self._file.close()


def _patience(connection: sa.Connection, answer_s: float | None) -> AbstractContextManager[None]:
    if connection.dialect.name != "postgresql" or answer_s == _USUAL_S:
        return nullcontext()
    from nextquery.service.log.database.postgres import waiting_longer

    return waiting_longer(connection, answer_s)
