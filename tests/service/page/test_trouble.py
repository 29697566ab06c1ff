"""The service is unavailable, slow, broken or empty: the page shows it and recovers by itself."""

from pathlib import Path

import numpy as np
from playwright.sync_api import Route, expect

import nextquery as nq
from nextquery.service.process import ServiceProcess
from tests.service.page.conftest import Open
from tests.service.worlds import until


def test_a_killed_service_comes_back(service: ServiceProcess, open_page: Open) -> None:
    with nq.Client(service.url, timeout=60) as client:
        before = client.stats()["totals"]["accepted"]
        page = open_page(service.url, strict=False)
        page.locator(".chip").first.click()
        expect(page.locator(".card").first).to_be_visible()
        page.wait_for_selector("#map[data-points]")
        service.kill()
        page.locator(".card").nth(1).click()
        expect(page.locator("#cards [data-state=down]")).to_contain_text("Nothing is lost")
        service.start()
        expect(page.locator(".card").first).to_be_visible()
        expect(page.locator("#trail li")).to_have_count(2)
        assert until(lambda: client.stats()["totals"]["accepted"] == before + 1)  # sent later


def test_a_slow_answer(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url)
    expect(page.locator(".chip").first).to_be_visible()

    held: list[Route] = []
    page.route("**/v1/recommend", lambda route: held.append(route))
    page.locator("#box").fill("cat food")
    page.locator("#box").press("Enter")
    expect(page.locator("#cards .bone").first).to_be_visible()
    expect(page.locator("#cards .slow")).to_contain_text("longer than usual")
    held[0].continue_()
    expect(page.locator(".card").first).to_be_visible()


def test_a_partial_answer_says_so(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url)
    expect(page.locator(".chip").first).to_be_visible()

    def partial(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "partial": True, "not_searched": 9})

    page.route("**/v1/recommend", partial, times=1)
    for query, visible in (("cat food", True), ("dog food", False)):
        page.locator("#box").fill(query)
        page.locator("#box").press("Enter")
        expect(page.locator("#slate-title")).to_contain_text(query)
        expect(page.locator(".card").first).to_be_visible()
        expect(page.locator("#partial")).to_be_visible(visible=visible)
        if visible:
            expect(page.locator("#partial")).to_contain_text("9 queries of the pool were not")


def test_an_error_is_told_and_can_be_tried_again(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url, strict=False)
    expect(page.locator(".chip").first).to_be_visible()
    page.locator("#box").evaluate("box => box.removeAttribute('maxlength')")
    page.locator("#box").fill("cat \u0007 food")  # rejected: a control character
    page.locator("#box").press("Enter")
    error = page.locator("[data-state=error]").first
    expect(error).to_contain_text("control characters")
    expect(error).to_contain_text("request")
    page.locator("#box").fill("cat food")
    page.locator("#box").press("Enter")
    expect(page.locator(".card").first).to_be_visible()


def test_an_empty_pool(tmp_path: Path, open_page: Open) -> None:
    pool = nq.ArmPool.from_vectors(["gone"], np.ones((1, 4)))
    pool.remove([0])
    pool.save(tmp_path / "pool")
    with ServiceProcess(tmp_path / "pool", f"sqlite:///{tmp_path / 'events.db'}") as service:
        page = open_page(service.url, strict=False)
        expect(page.locator("[data-state=empty]")).to_contain_text("The pool is empty")
        page.locator("#box").fill("anything")
        page.locator("#box").press("Enter")
        expect(page.locator("#cards [data-state=none]")).to_be_visible()
