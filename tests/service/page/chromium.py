"""The browser of the page's tests. Without Chromium, they are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright

WAIT_MS = 200_000  # long enough for a busy machine
SIZE = {"width": 1280, "height": 900}


class Chromium:
    """A browser that starts when it is first asked for, and the tab that most tests use in turn.

    A tab of its own would cost each test half a second of processor time.
    """

    def __init__(self) -> None:
        self._running = ExitStack()
        self._browser: Browser | None = None
        self._tab: Page | None = None

    def tab(self, **options: object) -> Page:
        """Return a tab without a past: the usual one if it is free and there are no options."""
        if self._tab is not None and not options:
            tab, self._tab = self._tab, None
            return tab
        if self._browser is None:
            self._browser = self._running.enter_context(_chromium())
        context = self._browser.new_context(**{"viewport": SIZE, **options})  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        return page

    def hand_on(self, tab: Page, site: str) -> None:
        """Keep a tab for the next test if nothing of this test, which opened `site`, is left."""
        if self._tab is None and _cleared(tab, site):
            self._tab = tab
        else:
            tab.context.close()

    def close(self) -> None:
        """End the browser; a later `tab` starts another."""
        self._running.close()
        self._browser = self._tab = None


@contextmanager
def _chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("the browser tests did NOT run: Chromium is missing (make test installs it)")
    with sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-background-networking"]
        chromium = playwright.chromium.launch(executable_path=path, args=args)
        yield chromium
        chromium.close()


def _cleared(tab: Page, site: str) -> bool:
    """Remove what a test left in its tab; False if another site may have kept something."""
    if not tab.url.startswith(f"{site}/"):
        return False
    try:
        tab.unroute_all(behavior="ignoreErrors")
        tab.evaluate("sessionStorage.clear(), localStorage.clear()")
        tab.context.clear_cookies()
        tab.context.clear_permissions()
        tab.mouse.move(0, 0)
        tab.set_viewport_size({"width": SIZE["width"], "height": SIZE["height"]})
        tab.goto("about:blank")
    except Error:
        return False
    return True
