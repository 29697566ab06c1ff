"""Fixtures: pages in a real Chromium, and the real services that they come from."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import ConsoleMessage, Dialog, Error, Page, expect

from nextquery.build.ingest import ingest
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from tests.explore.worlds import homes
from tests.logs_for_tests import pets
from tests.service.page.chromium import WAIT_MS, Chromium

SCRIPT = "<script>alert('stored')</script> cat"
HEBREW = "מזון לחתולים בוגרים"
NAMES = ("box", "shop", "counter", "hasty")
Open = Callable[..., Page]
expect.set_options(timeout=WAIT_MS)


def strange(path: Path) -> Path:
    """Write the log of pets, plus queries that could break the page."""
    pets(path)
    rows = [
        f"w{user}\tt{user}\t2024-02-{user + 1:02d} 10:{step:02d}:00\t{query}"
        for user in range(6)
        for step, query in enumerate((HEBREW, SCRIPT, "cat food", "cat " + "very long word " * 12))
    ]
    with path.open("a") as log:
        log.write("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="session")
def page_pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    ingest(strange(folder / "log.tsv"), folder / "pool", encoder="lsa")
    return folder / "pool"


@pytest.fixture(scope="session")
def service(page_pool: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service without keys that knows the table of homes; tests may restart it."""
    folder = tmp_path_factory.mktemp("store")
    homes(folder)
    certain = {"log_level": "warning", "exploration": 0}  # else any card may be drawn at random
    settings = {**certain, "explore": folder / "homes.csv"}
    with ServiceProcess(page_pool, f"sqlite:///{folder / 'events.db'}", settings=settings) as run:
        yield run


class Shop(BaseHTTPRequestHandler):
    """A web page of another origin."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>shop</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def shop() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


class Locked(NamedTuple):
    """A service that needs keys, allows few requests, reviews new queries and trusts the shop."""

    url: str
    admin: str
    keys: dict[str, str]  #: of scope write, by name; the rate limit counts each on its own


@pytest.fixture(scope="session")
def locked(
    page_pool: Path, tmp_path_factory: pytest.TempPathFactory, shop: int
) -> Iterator[Locked]:
    url = f"sqlite:///{tmp_path_factory.mktemp('locked') / 'events.db'}"
    store = Store.open(url)
    ring = KeyRing(store)
    admin = ring.create(name="operator", scope="admin")[1]
    keys = {name: ring.create(name=name, scope="write")[1] for name in NAMES}
    store.close()
    settings = {
        "log_level": "warning",
        "rate_limit": "30/3second",
        "review_new_arms": "true",
        "cors_origins": f"http://127.0.0.1:{shop}",
    }
    with ServiceProcess(page_pool, url, settings=settings) as running:
        yield Locked(running.url, admin, keys)


_CHROMIUM = pytest.StashKey[Chromium]()


@pytest.fixture
def chromium(request: pytest.FixtureRequest) -> Chromium:
    """The browser of this folder: later its event loop would block other tests' loops."""
    folder: pytest.Dir = request.node.getparent(pytest.Dir)
    browser = folder.stash.setdefault(_CHROMIUM, Chromium())
    folder.addfinalizer(browser.close)
    return browser


@pytest.fixture
def open_page(chromium: Chromium) -> Iterator[Open]:
    """Open pages; at the end none of them may have logged an error."""
    endings: list[Callable[[], None]] = []
    errors: list[str] = []

    def open_(url: str, *, strict: bool = True, **options: object) -> Page:
        def on_console(message: ConsoleMessage) -> None:
            if message.type == "error" and strict:  # failed requests are logged here too
                errors.append(message.text)

        def on_dialog(dialog: Dialog) -> None:
            errors.append(dialog.message)
            dialog.dismiss()

        def on_error(error: Error) -> None:
            errors.append(str(error))

        def end() -> None:
            page.remove_listener("console", on_console)
            page.remove_listener("pageerror", on_error)
            page.remove_listener("dialog", on_dialog)
            if options:
                page.context.close()
            else:
                chromium.hand_on(page, site=url.partition("/#")[0].rstrip("/"))

        page = chromium.tab(**options)
        page.on("console", on_console)
        page.on("pageerror", on_error)
        page.on("dialog", on_dialog)
        endings.append(end)
        page.goto(url)
        return page

    yield open_
    for end in endings:
        end()
    assert errors == []
