"""A store that does not answer: /healthz and the page do, everything else gets 503 in time."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from limits import RateLimitItemPerMinute
from starlette.testclient import TestClient

from nextquery.service.engine.engine import Engine
from nextquery.service.http import access
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import FRESH_S, KeyRing
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.service.http.conftest import LOCAL
from tests.service.worlds import stalled, until

REQUEST = {"session_id": "s", "query": "cat food"}
UNKNOWN = {"Authorization": "Bearer nq_0123456789ab_guess"}


@pytest.fixture
def ring(store: Store) -> KeyRing:
    return KeyRing(store)


@pytest.fixture
def key(ring: KeyRing) -> dict[str, str]:
    return {"Authorization": f"Bearer {ring.create(name='x', scope='admin')[1]}"}


@pytest.fixture
def keyed(engine: Engine, ring: KeyRing, key: dict[str, str]) -> Iterator[TestClient]:
    settings = Settings(keys="on", request_timeout_s=1.0)
    with TestClient(create_app(engine, settings, keys=ring), base_url=LOCAL) as client:
        yield client


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as pool:
        yield pool


def stale(ring: KeyRing) -> bool:
    return until(ring.stale)


def test_an_unknown_key_does_not_stop_the_event_loop(
    keyed: TestClient,
    key: dict[str, str],
    ring: KeyRing,
    store: Store,
    threads: ThreadPoolExecutor,
) -> None:
    assert keyed.get("/v1/stats", headers=key).status_code == 200  # the keys are known now
    with stalled(store) as waits:
        for _ in range(2):  # at any age of what is known about keys
            asked = threads.submit(keyed.get, "/v1/stats", headers=UNKNOWN)
            threads.submit(waits.wait, FRESH_S / 2).result()
            assert threads.submit(keyed.get, "/healthz").result(300).status_code == 200
            assert asked.result(300).status_code in (401, 503)
            assert stale(ring)


def test_the_store_is_read_once_a_second_for_unknown_keys(
    keyed: TestClient, key: dict[str, str], ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ring._read
    reads: list[object] = []

    def counted() -> Any:
        reads.append(1)
        return read()

    monkeypatch.setattr(ring, "_read", counted)
    monkeypatch.setattr("nextquery.service.http.keys.FRESH_S", 600.0)
    for number in range(50):
        headers = {"Authorization": f"Bearer nq_{number:012x}_guess"}
        assert keyed.get("/v1/stats", headers=headers).status_code == 401
    assert keyed.get("/v1/stats", headers=key).status_code == 200
    assert len(reads) == 1


def test_keys_that_are_stale_as_soon_as_they_are_read(
    keyed: TestClient, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nextquery.service.http.keys.FRESH_S", 0.0)  # like a very slow store
    assert keyed.get("/v1/stats", headers=key).status_code == 200


def test_requests_get_503_in_time_and_health_answers(
    keyed: TestClient,
    key: dict[str, str],
    ring: KeyRing,
    store: Store,
    engine: Engine,
    threads: ThreadPoolExecutor,
) -> None:
    slate = keyed.post("/v1/recommend", json=REQUEST, headers=key).json()
    feedback = {"decision_id": slate["decision_id"], "accepted": None}
    calls: list[tuple[str, str, Any]] = [
        ("POST", "/v1/recommend", REQUEST),
        ("POST", "/v1/feedback", feedback),
        ("POST", "/v1/switch", {"on": True}),
        ("GET", "/v1/decisions", None),
        ("GET", "/v1/operate", None),
        ("GET", "/metrics", None),
        ("GET", "/readyz", None),
    ]
    with stalled(store):
        asked: list[Future[Any]] = [
            threads.submit(keyed.request, method, path, json=body, headers=key)
            for _ in range(8)  # more than there are threads for the store
            for method, path, body in calls
        ]
        for path in ("/healthz", "/", "/page/app.js"):
            assert threads.submit(keyed.get, path).result(300).status_code == 200
        assert {future.result(300).status_code for future in asked} == {503}
        assert stale(ring)
        assert keyed.post("/v1/recommend", json=REQUEST, headers=key).status_code == 503
    assert until(lambda: keyed.get("/readyz").status_code == 200)
    assert keyed.post("/v1/feedback", json=feedback, headers=key).status_code == 200
    assert engine.health().store_ok


def test_a_keyless_service_answers_health_too(
    engine: Engine, store: Store, threads: ThreadPoolExecutor
) -> None:
    app = create_app(engine, Settings(), watched=KeyRing(store))
    with TestClient(app, base_url=LOCAL) as client, stalled(store):
        assert threads.submit(client.get, "/healthz").result(300).status_code == 200


def named_threads(prefix: str) -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(prefix)}


def test_the_service_stops_while_the_store_is_stalled(
    engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor
) -> None:
    monkeypatch.setattr("nextquery.service.http.app.CLOSE_S", 0.3)
    # applications of other tests that were never started as a whole are never closed
    before = named_threads("nextquery-store")
    with stalled(store):
        with TestClient(create_app(engine, Settings(request_timeout_s=0.2)), base_url=LOCAL) as one:
            assert one.post("/v1/recommend", json=REQUEST).status_code == 503
        ended = threads.submit(engine.close).result(300)  # closed by the application
    assert ended is None
    assert until(lambda: not (named_threads("nextquery") - before))


def test_guessing_keys_is_slowed_and_locks_nobody_out(
    keyed: TestClient, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "OF_ADDRESS", RateLimitItemPerMinute(5))
    statuses = [keyed.get("/v1/stats", headers=UNKNOWN).status_code for _ in range(8)]
    assert statuses == [401] * 5 + [429] * 3
    refused = keyed.get("/v1/stats", headers=UNKNOWN)
    assert 1 <= int(refused.headers["Retry-After"]) <= 60
    assert keyed.get("/v1/stats", headers=key).status_code == 200  # from the same address
