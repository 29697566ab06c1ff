"""Fixtures: an engine on the pets pool, and a test client of the application."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import nextquery as nq
from nextquery.service.engine.engine import Engine
from nextquery.service.http import documentation
from nextquery.service.http.app import create_app
from nextquery.service.log.store import Store
from nextquery.service.settings import EngineOptions, Settings
from tests.service.worlds import new_log

LOCAL = "http://127.0.0.1:8000"
TOKEN = "the-token-of-this-start"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(new_log(tmp_path / "events.db"))
    yield opened
    opened.close()


@pytest.fixture
def engine(pets_pool: Path, store: Store) -> Iterator[Engine]:
    started = Engine.start(nq.ArmPool.open(pets_pool), store, EngineOptions(m_max=20))
    yield started
    started.close()


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    """A client of the application without API keys, which sends the token of the start."""
    app = create_app(engine, Settings(), token=TOKEN)
    with TestClient(app, base_url=LOCAL, headers=BEARER) as opened:
        yield opened


@pytest.fixture(autouse=True)
def small_site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve one page as the documentation, whether it is built here or not."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text("the documentation")
    monkeypatch.setattr(documentation, "FOLDER", folder)
