"""Learning and Operate show the policies side by side, a fallback, and a model rolled back."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from nextquery.cli.options import write_all
from nextquery.service.log.events import By, PolicyFallback
from nextquery.service.log.store import Store
from nextquery.service.log.teaching import StartFallback
from nextquery.service.process import ServiceProcess
from tests.service.page.conftest import Open
from tests.service.page.test_views import serious

SPLIT = {"experiment": "lin-ucb-shared:0.5,random:0.5", "control_share": 0.2}


@pytest.fixture
def divided(page_pool: Path, tmp_path: Path) -> Iterator[ServiceProcess]:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    settings = {"log_level": "error", "policy": "lin-ucb-shared", **SPLIT}
    with ServiceProcess(page_pool, url, settings=settings) as running:
        for number in range(12):
            body = {"session_id": f"s{number}", "query": "cat food"}
            slate = httpx2.post(f"{running.url}/v1/recommend", json=body, timeout=60).json()
            outcome = {
                "decision_id": slate["decision_id"],
                "accepted": slate["recommendations"][0]["arm_id"],
            }
            httpx2.post(f"{running.url}/v1/feedback", json=outcome, timeout=60)
        yield running


def test_the_split_a_fallback_and_a_roll_back(divided: ServiceProcess, open_page: Open) -> None:
    page = open_page(divided.page, viewport={"width": 390, "height": 844})  # a phone
    page.locator("[data-view=learning]").click()
    learning = page.locator("#live")
    expect(learning).to_contain_text("Policies side by side")
    expect(learning).to_contain_text("lin-ucb-shared − random")
    expect(learning).to_contain_text("not decided yet")
    expect(learning).to_contain_text("the service falls back")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(page) == []
    page.locator("[data-view=operate]").click()
    expect(page.locator("#end-fallback")).to_be_disabled()
    expect(page.locator("#forward")).to_be_disabled()
    page.locator("#position").fill("2")
    page.locator("#position").press("Enter")
    notice = page.locator("#operating [data-notice=rolled-back]")
    expect(notice).to_contain_text("what it was at log position 2")
    store = Store.open(divided.store, create=False)
    fallen = PolicyFallback(policy="lin-ucb-shared", by=By("service", "watch"))
    assert write_all(store, [StartFallback(fallen, store.head().position)])[0] is not None
    store.close()
    shown = page.locator("#operating [data-notice=fallback]")
    expect(shown).to_contain_text("lin-ucb-shared was found worse")
    assert serious(page) == []
    page.locator("#end-fallback").click()
    expect(page.locator("#done")).to_contain_text("The model answers again")
    expect(shown).to_have_count(0)
    page.locator("#forward").click()
    expect(notice).to_have_count(0)
