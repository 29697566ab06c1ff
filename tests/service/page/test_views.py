"""Learning, Operate, API keys and accessibility."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import axe_playwright_python
import httpx2
from playwright.sync_api import Page, Route, expect

from nextquery.service.process import ServiceProcess
from tests.service.page.conftest import Locked, Open

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


def serious(page: Page, *, rules: tuple[str, ...] = ()) -> list[str]:
    """Return what axe finds; `rules` are all if none is given."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    result = page.evaluate("rules => axe.run(rules.length ? { runOnly: rules } : {})", list(rules))
    return [
        json.dumps({"rule": rule["id"], "where": [node["target"] for node in rule["nodes"]]})
        for rule in result["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


def fewer_visits(route: Route) -> None:
    asked = route.request.post_data_json
    assert asked is not None
    assert asked["users"] == 100
    route.continue_(post_data={**asked, "users": 10})


def test_simulated_people_play(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(f"{service.url}/#learning")
    expect(page.locator("#live .figures")).to_be_visible()
    for word in ("Answers", "Helped", "Share that helped", "Within reach", "Queries shown"):
        expect(page.locator("#live .figures")).to_contain_text(word)
    expect(page.locator("#learning")).not_to_contain_text("floor")
    expect(page.locator(".badge")).to_have_text("Simulated")
    shown = "fetch('/v1/stats').then(r => r.json()).then(s => s.totals.rounds)"
    before = page.evaluate(shown)
    page.route("**/v1/simulate", fewer_visits)
    page.locator("#play").click()
    expect(page.locator("#play-note")).to_contain_text("the best possible is about")
    expect(page.locator("#play-chart path.line")).to_have_count(3)
    expect(page.locator("#play-chart")).to_contain_text("simulated people")
    assert page.evaluate(shown) == before  # the log only grew by slates that expired meanwhile


def test_operate_blocks_switches_and_exports(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.page)
    page.locator("#box").fill("rabbit food")
    page.locator("#box").press("Enter")
    unwanted = page.locator(".card .title").first.inner_text()
    page.locator("[data-view=operate]").click()
    expect(page.locator("#operating")).to_contain_text("rabbit food")
    for words in ("p95 ms", "by fallback", "behind", "Store", "open"):
        expect(page.locator("#operating")).to_contain_text(words)
    page.locator("#block").fill(unwanted)
    page.locator("#block").press("Enter")
    expect(page.locator(".blocked").first).to_contain_text(unwanted, ignore_case=True)
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as UBI").click()
    assert download.value.suggested_filename == "nextquery.ubi.jsonl"
    assert "rabbit food" in Path(download.value.path()).read_text()
    page.locator("#power").click()
    expect(page.locator("#power")).to_have_text("Switch recommendations on")
    page.locator("[data-view=explore]").click()
    page.locator("#box").fill("rabbit vet")
    page.locator("#box").press("Enter")
    expect(page.locator("[data-state=off]")).to_be_visible()
    page.locator("[data-view=operate]").click()
    page.locator("#power").click()
    expect(page.locator("#power")).to_have_text("Switch recommendations off")
    page.get_by_role("button", name="Unblock").first.click()
    expect(page.locator("#done")).to_have_text("Unblocked.")


def test_operate_pins_a_query_and_tells_who_did_it(
    service: ServiceProcess, open_page: Open
) -> None:
    page = open_page(service.page)
    page.locator("[data-view=operate]").click()
    page.locator("#pin").fill("rabbit food by post")
    page.locator("#pin-after").fill("rabbit food")
    page.locator("#pin").press("Enter")
    expect(page.locator("#pins")).to_contain_text("rabbit food by post after rabbit food")
    page.locator("#show-changes").click()
    expect(page.locator("#changes")).to_contain_text("pinned")
    expect(page.locator("#changes")).to_contain_text("token")
    page.locator("[data-view=explore]").click()
    page.locator("#box").fill("rabbit food")
    page.locator("#box").press("Enter")
    expect(page.locator(".card .title").first).to_have_text("rabbit food by post")
    page.locator("[data-view=operate]").click()
    page.get_by_role("button", name="Unpin").first.click()
    expect(page.locator("#done")).to_have_text("No longer pinned.")


def test_keys_wrong_small_and_right(locked: Locked, open_page: Open) -> None:
    admin = locked.admin
    page = open_page(f"{locked.url}/#operate", strict=False)
    field = page.locator("[data-state=key] input")
    expect(page.locator("[data-state=key]")).to_contain_text(
        "needs the link from the terminal, or an API key"
    )
    field.fill("nq_wrong_key")
    field.press("Enter")
    expect(page.locator("[data-state=key]")).to_contain_text("Unknown API key")
    field.fill(locked.keys["box"])
    field.press("Enter")
    expect(page.locator("[data-state=key]")).to_contain_text("needs another API key")
    field.fill(admin)
    field.press("Enter")
    expect(page.locator("#operating")).to_contain_text("Newest decisions")
    assert page.evaluate("sessionStorage.getItem('nextquery.key')") == admin
    assert admin not in page.evaluate("JSON.stringify(localStorage) + document.cookie")
    page.locator("#forget").click()
    expect(page.locator("[data-state=key]")).to_contain_text(
        "needs the link from the terminal, or an API key"
    )


def test_the_token_of_the_link_opens_operate_and_leaves_the_address(
    service: ServiceProcess, open_page: Open
) -> None:
    page = open_page(f"{service.url}/#operate", strict=False)
    expect(page.locator("[data-state=key]")).to_contain_text("nextquery serve printed")
    page.goto(service.page)  # pasted into the open tab
    expect(page.locator(".chip").first).to_be_visible()
    assert service.token
    assert service.token not in page.url
    assert page.evaluate("sessionStorage.getItem('nextquery.key')") == service.token
    page.locator("[data-view=operate]").click()
    expect(page.locator("#operating")).to_contain_text("Newest decisions")
    page.go_back()
    assert service.token not in page.url
    assert service.token not in page.evaluate("JSON.stringify(localStorage) + document.cookie")


def test_a_key_that_asks_too_often_waits(locked: Locked, open_page: Open) -> None:
    key = locked.keys["hasty"]
    others = httpx2.Client(headers={"Authorization": f"Bearer {key}"}, timeout=60)
    page = open_page(locked.url, strict=False)
    field = page.locator("[data-state=key] input")
    field.fill(key)
    field.press("Enter")
    expect(page.locator(".chip").first).to_be_visible()

    held: list[Route] = []

    def too_often(route: Route) -> None:
        """Use up the rate limit with the same key until the page gets a 429 too."""
        answer = route.fetch()
        while answer.status != 429:
            with ThreadPoolExecutor() as at_once:
                list(at_once.map(others.get, [f"{locked.url}/v1/stats"] * 30))
            answer = route.fetch()
        route.fulfill(response=answer)

    page.route("**/v1/recommend", lambda route: held.append(route))
    page.route("**/v1/recommend", too_often, times=1)
    page.locator(".chip").first.click()
    expect(page.locator("[data-state=rate]").first).to_contain_text("Retrying in")
    while not held:  # the page retries, and keeps the message until it gets an answer
        page.wait_for_timeout(50)
    held[0].continue_()
    expect(page.locator(".card").first).to_be_visible()
    others.close()


def serious_in_both_schemes(page: Page) -> list[str]:
    found = serious(page)
    page.locator("#theme").click()  # only colours change
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    found += serious(page, rules=("color-contrast",))
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    return found


def test_axe_finds_nothing_serious(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.page)
    expect(page.locator(".chip").first).to_be_visible()
    assert serious_in_both_schemes(page) == []
    page.locator(".chip").first.click()
    expect(page.locator("#map canvas")).to_be_visible()
    expect(page.locator(".card").first).to_be_visible()
    page.locator("#numbers").click()
    expect(page.locator(".facts").first).to_be_visible()
    assert serious_in_both_schemes(page) == []
    page.goto(f"{service.url}/#learning")
    expect(page.locator("#live .figures")).to_be_visible()
    assert serious_in_both_schemes(page) == []
    page.goto(f"{service.url}/#operate")
    expect(page.locator("#operating table").first).to_be_visible()
    assert serious_in_both_schemes(page) == []


def test_light_and_dark_by_wish(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.locator("#theme").click()
    light = page.evaluate(colour)
    assert dark != light
    page.reload()
    assert page.evaluate(colour) == light


def test_new_queries_are_reviewed(locked: Locked, open_page: Open) -> None:
    held = ["cat food for old dogs", "rabbit food for cats"]
    bearer = {"Authorization": f"Bearer {locked.admin}"}
    for query in held:
        for user in ("ann", "bob"):
            body = {"session_id": user, "user_id": user, "query": query.title()}
            httpx2.post(f"{locked.url}/v1/recommend", json=body, headers=bearer, timeout=60)
    page = open_page(f"{locked.url}/#operate", strict=False)
    page.locator("[data-state=key] input").fill(locked.admin)
    page.locator("[data-state=key] input").press("Enter")
    expect(page.locator("#arms h2")).to_have_text("New queries: 2 to review")
    expect(page.locator("#arms .words", has_text=held[1])).to_be_visible()
    assert serious(page) == []
    page.get_by_role("button", name=f"Approve {held[0]}").click()
    expect(page.locator("#arms .state")).to_have_text(["held", "added"])
    page.get_by_role("button", name=f"Reject {held[1]}").click()
    page.get_by_role("button", name=f"Reject {held[1]} for good?").click()
    expect(page.locator("#arms .state")).to_have_text(["rejected", "added"])
    page.get_by_role("button", name=f"Remove {held[0]}").click()
    page.get_by_role("button", name=f"Remove {held[0]} for good?").click()
    expect(page.locator("#done")).to_contain_text("Removed for good")
    expect(page.locator("#arms .state")).to_have_text(["removed", "rejected"])
    expect(page.locator("#arms button")).to_have_count(0)
