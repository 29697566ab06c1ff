"""Fixtures: a real Chromium and a real service. Without Chromium, these tests are skipped."""

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
WAIT_MS = 200_000  # long enough for a busy machine
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


@pytest.fixture(scope="module")  # its event loop would block other tests' loops
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("the browser tests did NOT run: Chromium is missing (make test installs it)")
    with sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-background-networking"]
        chromium = playwright.chromium.launch(executable_path=path, args=args)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def service(page_pool: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    store = f"sqlite:///{tmp_path_factory.mktemp('store') / 'events.db'}"
    certain = {"log_level": "warning", "exploration": 0}  # else any card may be drawn at random
    with ServiceProcess(page_pool, store, settings=certain) as running:
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
    """Open pages; at the end none of them may have logged an error."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def open_(url: str, *, strict: bool = True, **options: object) -> Page:
        size = {"width": 1280, "height": 900}
        context = browser.new_context(**{"viewport": size, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)

        def on_console(message: ConsoleMessage) -> None:
            if message.type == "error" and strict:  # failed requests are logged here too
                errors.append(message.text)

        def on_dialog(dialog: Dialog) -> None:
            errors.append(dialog.message)
            dialog.dismiss()

        page.on("console", on_console)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", on_dialog)
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert errors == []
