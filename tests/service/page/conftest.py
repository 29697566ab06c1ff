"""A real Chromium before a real service. Where there is no Chromium these tests say so and skip."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    expect,
    sync_playwright,
)

from nextquery.ingest import ingest
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from tests.logs_for_tests import pets

SCRIPT = "<script>alert('stored')</script> cat"
HEBREW = "מזון לחתולים בוגרים"
Open = Callable[..., Page]
WAIT_MS = 200_000  # a busy machine may need long; what never comes is told by then
expect.set_options(timeout=WAIT_MS)


def strange(path: Path) -> Path:
    """The log of pets, with queries that a page might trip over."""
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


@pytest.fixture(scope="module")  # while it is open its event loop runs, and others could have none
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("the browser tests did NOT run: no Chromium here (make test installs it)")
    with sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-background-networking"]
        opened = playwright.chromium.launch(executable_path=found, args=args)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def service(page_pool: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    store = f"sqlite:///{tmp_path_factory.mktemp('store') / 'events.db'}"
    with ServiceProcess(page_pool, store, settings={"log_level": "warning"}) as running:
        yield running


@pytest.fixture(scope="session")
def locked(page_pool: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a service that needs keys and allows few requests, and an admin key."""
    url = f"sqlite:///{tmp_path_factory.mktemp('locked') / 'events.db'}"
    store = Store.open(url)
    key = KeyRing(store).create(name="operator", scope="admin")[1]
    small = KeyRing(store).create(name="box", scope="write")[1]
    store.close()
    limits = {"log_level": "warning", "rate_limit": "12/3second"}
    with ServiceProcess(page_pool, url, settings=limits) as running:
        yield f"{running.url} {small}", key


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens pages; at the end none of them may have complained."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def begin(url: str, *, complain: bool = True, **how: object) -> Page:
        size = {"width": 1280, "height": 900}
        context = browser.new_context(**{"viewport": size, **how})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)

        def said(message: ConsoleMessage) -> None:
            if message.type == "error" and complain:  # refused requests are told here too
                complaints.append(message.text)

        def asked(dialog: Dialog) -> None:
            complaints.append(dialog.message)
            dialog.dismiss()

        page.on("console", said)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", asked)
        page.goto(url)
        return page

    yield begin
    for context in contexts:
        context.close()
    assert complaints == []
