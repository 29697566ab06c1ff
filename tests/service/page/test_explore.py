"""The Explore view as a user works with it: typing, arrow keys, Enter, taps, back, the map."""

import re

from playwright.sync_api import Locator, Page, expect

from nextquery.service.log.store import Store
from nextquery.service.process import ServiceProcess
from tests.service.page.conftest import HEBREW, SCRIPT, Open


def ask(page: Page, query: str) -> None:
    page.locator("#box").fill(query)
    page.locator("#box").press("Enter")
    expect(page.locator("#slate-title q")).to_have_text(query)
    expect(page.locator(".card, #cards [data-state=none]").first).to_be_visible()


def still(page: Page) -> Locator:
    """Return the map of the current query, once its points no longer move."""
    query = page.locator("#slate-title q").inner_text()
    canvas = page.locator(f'#map canvas[data-still][aria-label*="around {query},"]')
    expect(canvas).to_be_visible()
    return canvas


def shown(page: Page, tip: str) -> bool:
    """Return whether a tip is visible; a pointer move takes effect in the next frame."""
    if page.locator(tip).is_visible():
        page.evaluate("new Promise(seen => requestAnimationFrame(() => setTimeout(seen)))")
    return page.locator(tip).is_visible()


def test_by_keyboard_alone(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url)
    expect(page.locator("#box")).to_be_focused()
    page.keyboard.type("cat food")
    page.keyboard.press("Enter")
    cards = page.locator(".card")
    expect(cards).to_have_count(5)
    expect(page.locator("#said")).to_have_text("5 next queries after cat food")
    expect(cards.first.locator(".because")).to_have_text(re.compile("asked next after yours"))
    page.keyboard.press("ArrowDown")
    expect(cards.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    expect(cards.nth(1)).to_be_focused()
    shown = [cards.nth(at).locator(".title").inner_text() for at in range(5)]
    page.keyboard.press("Enter")
    expect(page.locator("#slate-title q")).to_have_text(shown[1])
    expect(page.locator("#trail li")).to_have_count(2)
    expect(page.locator("#cards .bone")).to_have_count(0)  # otherwise another test may count it
    page.keyboard.press("Backspace")
    expect(page.locator("#trail li")).to_have_count(1)
    expect(page.locator(".card.taken .title")).to_have_text(shown[1])
    assert [cards.nth(at).locator(".title").inner_text() for at in range(5)] == shown
    page.keyboard.press("/")
    expect(page.locator("#box")).to_be_focused()


def test_numbers_are_for_those_who_ask_for_them(service: ServiceProcess, open_page: Open) -> None:
    """A card says how likely it is in words that agree with the answer; the rest is in Details."""
    page = open_page(service.url)
    with page.expect_response("**/v1/recommend") as answered:
        ask(page, "cat food")
    first = answered.value.json()["recommendations"][0]["why"]
    facts, details = page.locator(".card .facts").first, page.locator("#numbers")
    expect(facts).to_be_hidden()
    expect(page.locator(".card .because").first).to_have_text(first["because"])
    assert first["probability"] is not None
    text = page.locator(".card .chance").first.inner_text()
    share = re.search(r"about (\d+) in ([\d,]+) people", text, re.I)
    if first["confidence"] < 0.8:
        assert text == "Too new here to say how likely"
    else:
        assert share is not None
        told = int(share[1]) / int(share[2].replace(",", ""))
        assert abs(told - first["probability"]) <= 0.2 * first["probability"] + 0.05
    details.click()
    expect(details).to_have_attribute("aria-pressed", "true")
    expect(facts).to_be_visible()
    for name in ("Chance", "Similar", "Score", "Certainty"):
        expect(facts).to_contain_text(name)
    details.click()
    expect(facts).to_be_hidden()


def test_a_probability_as_people_say_it(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url)
    shares = [1, 0.94, 0.35, 0.3, 1 / 12, 1 / 123, 0.0009, 0]
    said = "shares => import('/page/dom.js').then(({ chance }) => shares.map(chance))"
    assert page.evaluate(said, shares) == [
        "nearly all people",
        "about 9 in 10 people",
        "about 4 in 10 people",
        "about 1 in 3 people",
        "about 1 in 12 people",
        "about 1 in 120 people",
        "fewer than 1 in 1,000 people",
        "fewer than 1 in 1,000 people",
    ]


def test_a_pick_and_what_is_typed_instead_are_in_the_log(
    service: ServiceProcess, open_page: Open
) -> None:
    page = open_page(service.url)
    with page.expect_request("**/v1/recommend") as first:
        page.locator(".chip").first.click()
    body = first.value.post_data_json
    assert body is not None
    page.locator(".card").nth(1).click()
    expect(page.locator("#trail li")).to_have_count(2)
    expect(page.locator(".card").first).to_be_visible()
    ask(page, "dog vet")
    store = Store.open(service.store, create=False)
    states = [d.state for d in store.decisions() if d.session_id == body["session_id"]]
    store.close()
    assert states == ["accepted", "failed", "open"]


def test_a_point_of_the_map_is_asked(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url)
    ask(page, "horse food")
    still(page).focus()
    page.keyboard.press("ArrowRight")
    text = page.locator(".tip strong").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator("#slate-title q")).to_have_text(text)
    expect(page.locator("#trail li")).to_have_count(2)
    frame = still(page).bounding_box()
    assert frame is not None
    for at in range(400):  # move the mouse until it hits a point
        x, y = 20 + (at * 37) % (frame["width"] - 40), 20 + (at * 53) % (frame["height"] - 40)
        page.mouse.move(frame["x"] + x, frame["y"] + y)
        if shown(page, ".tip"):
            break
    text = page.locator(".tip strong").inner_text()
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#slate-title q")).to_have_text(text)
    expect(page.locator("#trail li")).to_have_count(3)


def test_a_phone(service: ServiceProcess, open_page: Open) -> None:
    size = {"width": 390, "height": 844}
    page = open_page(service.page, viewport=size, has_touch=True, is_mobile=True)
    page.locator(".chip").nth(1).tap()
    expect(page.locator(".card")).to_have_count(5)
    page.locator(".card").nth(2).tap()
    expect(page.locator("#trail li")).to_have_count(2)
    canvas = still(page)
    canvas.scroll_into_view_if_needed()
    frame = canvas.bounding_box()
    assert frame is not None
    for at in range(200):  # tap until a point is hit; its button then sends the query
        x, y = 20 + (at * 37) % (frame["width"] - 40), 20 + (at * 53) % (frame["height"] - 40)
        page.touchscreen.tap(frame["x"] + x, frame["y"] + y)
        if shown(page, ".tip.pinned"):
            break
    text = page.locator(".tip strong").inner_text()
    expect(page.locator("#trail li")).to_have_count(2)
    page.locator(".tip button").tap()
    expect(page.locator("#slate-title q")).to_have_text(text)
    expect(page.locator("#trail li")).to_have_count(3)
    views = {"explore": ".card", "learning": "#live .figures", "operate": "#operating table"}
    for view, content in views.items():
        page.locator(f"[data-view={view}]").tap()
        expect(page.locator(content).first).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{view} is {width} wide"
    page.locator("[data-view=explore]").tap()
    page.locator(".back").tap()
    expect(page.locator("#trail li")).to_have_count(2)


def test_others_text_is_only_text(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.page)
    for query in (SCRIPT, "<img src=x onerror=alert(1)>", HEBREW, "cat " + "x" * 1500):
        ask(page, query)
        assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    title = page.locator("#slate-title q")
    ask(page, HEBREW)
    assert title.evaluate("node => getComputedStyle(node).direction") == "rtl"
    page.goto(f"{service.url}/#operate")
    expect(page.locator("#operating")).to_contain_text("<img src=x onerror=alert(1)>")


def test_the_cards_do_not_wait_for_the_map(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url)
    page.route("**/v1/map", lambda route: None)  # it never arrives
    ask(page, "cat food")
    expect(page.locator("#map .bone")).to_be_visible()
    page.locator(".card").first.click()
    expect(page.locator("#trail li")).to_have_count(2)
