"""The client for browsers, in Chromium, against a real service."""

from typing import Any

import pytest
from playwright.sync_api import Page, Route

import nextquery as nq
from nextquery.service.process import ServiceProcess
from nextquery.service.routes.page import page_files
from tests.service.page.conftest import Locked, Open
from tests.service.worlds import until

MOST_BYTES = 5120
PREPARE = """async (url) => {
    const { Nextquery, NextqueryError } = await import(url + "/client.js");
    Object.assign(window, { Nextquery, NextqueryError });
    window.nextquery = new Nextquery(url, { timeout: 60_000 }); // a busy machine is no failure
}"""


@pytest.fixture
def page(service: ServiceProcess, open_page: Open) -> Page:
    opened = open_page(service.url, strict=False)
    opened.evaluate(PREPARE, service.url)
    return opened


def accepted(service: ServiceProcess) -> int:
    with nq.Client(service.url, timeout=60) as client:
        return int(client.stats()["totals"]["accepted"])


def test_it_is_small_and_imports_nothing() -> None:
    source = page_files()["client.js"]
    assert len(source) <= MOST_BYTES
    assert not any(line.startswith(b"import ") for line in source.splitlines())


def test_recommend_feedback_and_forecast(page: Page, service: ServiceProcess) -> None:
    before = accepted(service)
    slate, again, status, likely = page.evaluate(
        """async () => {
            const slate = await nextquery.recommend("cat food", { m: 3 });
            const other = await nextquery.recommend("dog food", { m: 3, explain: true });
            const taken = await nextquery.feedback(slate, slate.recommendations[1]);
            await nextquery.feedback(other.decision_id, null, { issued: "cat food" });
            const { forecast } = await nextquery.forecast("cat food", { m: 2, at_least: 0.001 });
            return [slate, other, taken.status, forecast];
        }"""
    )
    assert len(slate["recommendations"]) == len(again["recommendations"]) == 3
    assert again["recommendations"][0]["why"]["because"]
    assert status == "recorded"
    assert 0 < likely[0]["probability"] <= 1
    assert accepted(service) == before + 1


def test_a_click_arrives_though_the_page_is_left(page: Page, service: ServiceProcess) -> None:
    before = accepted(service)
    page.evaluate(
        """async () => {
            const slate = await nextquery.recommend("cat food");
            addEventListener("pagehide", () => nextquery.clicked(slate, slate.recommendations[0]));
            setTimeout(() => { location.href = "about:blank"; });
        }"""
    )
    assert until(lambda: accepted(service) == before + 1)


def test_a_click_is_a_beacon_unless_there_is_a_key(page: Page) -> None:
    kinds = page.evaluate(
        """async () => {
            const sent = [];
            const beacon = navigator.sendBeacon.bind(navigator);
            navigator.sendBeacon = (...all) => (sent.push("beacon"), beacon(...all));
            const usual = window.fetch;
            window.fetch = (url, options) => (
                sent.push(options.keepalive ? options.headers.Authorization : "no"),
                usual(url, options)
            );
            nextquery.clicked("nobody", 1);
            new Nextquery(nextquery.url, { key: "nq_key" }).clicked("nobody", 1);
            return sent;
        }"""
    )
    assert kinds == ["beacon", "Bearer nq_key"]


def test_attempts_have_one_request_id(page: Page) -> None:
    bodies: list[Any] = []

    def fail_twice(route: Route) -> None:
        bodies.append(route.request.post_data_json)
        if len(bodies) == 1:
            route.abort("connectionreset")
        elif len(bodies) == 2:
            route.fulfill(status=503, headers={"Retry-After": "0"}, json={"detail": "busy"})
        else:
            route.continue_()

    page.route("**/v1/recommend", fail_twice)
    slate = page.evaluate(
        """() => new Nextquery(nextquery.url, { timeout: 60_000 }).recommend("cat food")"""
    )
    assert slate["recommendations"]
    assert len(bodies) == 3
    assert len({str(body["request_id"]) for body in bodies}) == 1
    assert len({str(body["session_id"]) for body in bodies}) == 1


CAUGHT = """async (call) => {
    try { await eval(call)(); return "no error"; }
    catch (error) { return [error.name, error.status ?? null, error.message ?? `${error}`]; }
}"""


def test_what_fails_says_why(page: Page) -> None:
    name, status, message = page.evaluate(CAUGHT, "() => nextquery.recommend('')")
    assert (name, status) == ("NextqueryError", 422)
    assert "query" in message
    name, status, message = page.evaluate(CAUGHT, "() => nextquery.feedback('nobody', 1)")
    assert (name, status) == ("NextqueryError", 404)
    page.route("**/v1/recommend", lambda route: None)  # never answered
    slow = "() => new Nextquery(nextquery.url, { timeout: 50 }).recommend('cat food')"
    assert page.evaluate(CAUGHT, slow) == ["NextqueryError", 0, "no answer within 50 ms"]
    aborted = """() => {
        const typing = new AbortController();
        const asked = nextquery.recommend("cat food", { signal: typing.signal });
        typing.abort();
        return asked;
    }"""
    assert page.evaluate(CAUGHT, aborted)[0] == "AbortError"
    page.unroute("**/v1/recommend")
    page.route("**/v1/recommend", lambda route: route.abort("connectionrefused"))
    gone = "() => new Nextquery(nextquery.url, { retries: 0 }).recommend('cat food')"
    assert page.evaluate(CAUGHT, gone)[:2] == ["NextqueryError", 0]


def test_a_visit_is_a_tab(page: Page, service: ServiceProcess, open_page: Open) -> None:
    first = page.evaluate("() => nextquery.sessionId")
    page.reload()
    page.evaluate(PREPARE, service.url)
    assert page.evaluate("() => nextquery.sessionId") == first
    other = open_page(service.url)
    other.evaluate(PREPARE, service.url)
    assert other.evaluate("() => nextquery.sessionId") != first


def test_from_another_origin_only_if_it_is_allowed(
    locked: Locked, open_page: Open, shop: int
) -> None:
    key = locked.keys["shop"]
    call = f"""async () => {{
        const {{ Nextquery }} = await import("{locked.url}/client.js");
        const far = new Nextquery("{locked.url}", {{ key: "{key}", timeout: 60_000 }});
        const slate = await far.recommend("cat food");
        far.clicked(slate, slate.recommendations[0]);
        return slate.recommendations.length;
    }}"""
    with nq.Client(locked.url, key=locked.keys["counter"], timeout=60) as client:
        before = client.stats()["totals"]["accepted"]
        assert open_page(f"http://127.0.0.1:{shop}/").evaluate(call) > 0
        assert until(lambda: client.stats()["totals"]["accepted"] == before + 1)
    stranger = open_page(f"http://localhost:{shop}/", strict=False)
    assert stranger.evaluate(CAUGHT, call)[0] == "TypeError"
    ask = f"""async () => (await fetch("{locked.url}/v1/stats", {{
        headers: {{ Authorization: "Bearer {key}" }} }})).status"""
    assert stranger.evaluate(CAUGHT, ask)[0] == "TypeError"
