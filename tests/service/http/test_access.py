"""Allowed hosts, origins, keys and rates; what errors and logs reveal."""

import json
import logging
import socket

import pytest
from starlette.testclient import TestClient

from nextquery.errors import StoreUnavailable
from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.responses import JsonLines
from nextquery.service.log.store import Store
from nextquery.service.server import _listen
from nextquery.service.settings import Settings
from tests.service.http.conftest import LOCAL

REQUEST = {"session_id": "s", "query": "cat food"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:8000"])
def test_this_machine_may_ask_without_keys(client: TestClient, host: str) -> None:
    assert client.get("/v1/stats", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[", "169.254.0.1"]
)
def test_other_host_names_are_rejected(client: TestClient, host: str) -> None:
    response = client.get("/v1/stats", headers={"Host": host})
    assert response.status_code == 400
    assert "localhost" in response.json()["detail"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (LOCAL, 200),
        ("http://127.0.0.1:3000", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("file://127.0.0.1:8000", 403),
    ],
)
def test_foreign_pages_may_not_ask_without_keys(
    client: TestClient, origin: str, status: int
) -> None:
    response = client.post("/v1/recommend", json=REQUEST, headers={"Origin": origin})
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers


def test_cors_is_open_to_the_named_alone(engine: Engine) -> None:
    settings = Settings(cors_origins=["https://shop.example"])
    with TestClient(create_app(engine, settings), base_url=LOCAL) as client:
        preflight = {"Access-Control-Request-Method": "POST"}
        for origin, allowed in (("https://shop.example", True), ("https://evil.example", False)):
            before = client.options("/v1/recommend", headers={"Origin": origin, **preflight})
            after = client.post("/v1/recommend", json=REQUEST, headers={"Origin": origin})
            assert (before.status_code == 200) == allowed
            assert (after.status_code == 200) == allowed
            assert (after.headers.get("access-control-allow-origin") == origin) == allowed


def test_named_hosts_hold_with_keys_too(engine: Engine, store: Store) -> None:
    ring = KeyRing(store)
    _, text = ring.create(name="x", scope="read")
    settings = Settings(keys="on", allowed_hosts=["search.example"])
    key = {"Authorization": f"Bearer {text}"}
    with TestClient(create_app(engine, settings, keys=ring), base_url=LOCAL) as client:
        for host, status in (("search.example", 200), ("evil.example", 400)):
            assert client.get("/v1/stats", headers={"Host": host, **key}).status_code == status


def test_the_first_key_closes_a_service_that_was_open(
    engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nextquery.service.http.access.FRESH_S", 0.0)
    ring = KeyRing(store)
    with TestClient(create_app(engine, Settings(), watched=ring), base_url=LOCAL) as client:
        assert client.get("/v1/stats").status_code == 200
        key, text = ring.create(name="x", scope="read")
        assert client.get("/v1/stats").status_code == 401
        headers = {"Authorization": f"Bearer {text}"}
        assert client.get("/v1/stats", headers=headers).status_code == 200
        ring.revoke(key.id)
        assert client.get("/v1/stats").status_code == 401  # keys stay required


def test_each_key_has_its_own_rate(engine: Engine, store: Store) -> None:
    ring = KeyRing(store)
    keys = [ring.create(name=name, scope="read")[1] for name in ("a", "b")]
    settings = Settings(keys="on", rate_limit="3/minute")
    with TestClient(create_app(engine, settings, keys=ring), base_url=LOCAL) as client:
        for text in keys:
            headers = {"Authorization": f"Bearer {text}"}
            statuses = [client.get("/v1/stats", headers=headers).status_code for _ in range(5)]
            assert statuses == [200, 200, 200, 429, 429]
        response = client.get("/v1/stats", headers=headers)
        assert 1 <= int(response.headers["Retry-After"]) <= 60
        assert client.get("/healthz", headers=headers).status_code == 200


def test_an_unavailable_store_is_503_when_keys_are_checked(
    engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = KeyRing(store)
    _, text = ring.create(name="x", scope="read")

    def unavailable() -> None:
        raise StoreUnavailable("unavailable")

    monkeypatch.setattr(store, "reading", unavailable)
    headers = {"Authorization": f"Bearer {text}"}
    app = create_app(engine, Settings(keys="on"), keys=ring)
    with TestClient(app, base_url=LOCAL) as client:
        response = client.get("/v1/stats", headers=headers)
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "1"


def test_defects_show_no_trace_and_the_log_no_query(
    client: TestClient,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("a secret query")

    monkeypatch.setattr(engine, "submit_recommend", broken)
    with caplog.at_level(logging.INFO, logger="nextquery.service"):
        response = client.post("/v1/recommend", json={**REQUEST, "query": "very private"})
    assert response.status_code == 500
    assert "ZeroDivision" not in response.text
    assert "secret" not in response.text
    lines = [json.loads(JsonLines(messages=False).format(record)) for record in caplog.records]
    assert [line["request_id"] for line in lines] == [response.json()["request_id"]] * 2
    assert lines[0]["error"]["type"] == "ZeroDivisionError"
    assert lines[1]["status"] == 500
    assert "secret" not in json.dumps(lines)
    assert "private" not in json.dumps(lines)
    verbose = json.loads(JsonLines(messages=True).format(caplog.records[0]))
    assert verbose["error"]["text"] == "a secret query"


def test_answers_are_sent_without_delay() -> None:
    with _listen(Settings(port=0)) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # else no TCP_NODELAY in asyncio: 40 ms


def test_expensive_paths_use_up_the_rate_sooner(engine: Engine, store: Store) -> None:
    ring = KeyRing(store)
    headers = {"Authorization": f"Bearer {ring.create(name='a', scope='read')[1]}"}
    settings = Settings(keys="on", rate_limit="40/hour")
    with TestClient(create_app(engine, settings, keys=ring), base_url=LOCAL) as client:
        answers = [client.post("/v1/map", json=REQUEST, headers=headers) for _ in range(11)]
        assert [answer.status_code for answer in answers] == [200] * 10 + [429]
        assert "counts as 4" in answers[-1].json()["detail"]
