"""Without API keys: what is open, what needs the token of the start, and proxies."""

import json
import shlex
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from nextquery.service.engine.engine import Engine
from nextquery.service.http.access import new_token
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.responses import ADMIN, NEEDED
from nextquery.service.log.store import Store
from nextquery.service.server import greeting
from nextquery.service.settings import Settings
from tests.service.http.conftest import BEARER, LOCAL, TOKEN
from tests.service.http.test_scopes import ALLOWED, BODIES, paths_of


@pytest.fixture
def stranger(engine: Engine) -> Iterator[TestClient]:
    """A client without the token."""
    with TestClient(create_app(engine, Settings(), token=TOKEN), base_url=LOCAL) as opened:
        yield opened


def status_of(client: TestClient, method: str, path: str, headers: dict[str, str]) -> int:
    url = path.replace("{file}", "app.js").replace("{file:path}", "")
    return client.request(method, url, json=BODIES.get(path), headers=headers).status_code


def test_only_the_token_opens_administration(stranger: TestClient) -> None:
    for method, path in paths_of(stranger.app.routes):  # type: ignore[attr-defined]
        well = ALLOWED.get(path, 200)
        closed = 401 if NEEDED[path] == ADMIN else well
        if path == "/v1/simulate":  # open to everyone like many others, and the slowest
            assert status_of(stranger, method, path, {}) == closed == 200
            continue
        assert status_of(stranger, method, path, {}) == closed, path
        assert status_of(stranger, method, path, {"Authorization": "Bearer x"}) == closed, path
        assert status_of(stranger, method, path, {"Authorization": TOKEN}) == closed, path
        assert status_of(stranger, method, path, BEARER) == well, path


def test_the_error_says_where_the_token_is(stranger: TestClient) -> None:
    response = stranger.get("/v1/decisions")
    assert "nextquery serve printed" in response.json()["detail"]
    assert TOKEN not in response.text


PROXIED = (
    *("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-proto"),
    *("X-Real-IP", "X-Forwarded", "X-Original-Forwarded-For", "CDN-Loop", "X-Azure-ClientIP"),
)


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/stats", "/v1/decisions"])
def test_a_request_that_a_proxy_passed_on_is_refused(client: TestClient, path: str) -> None:
    for header in PROXIED:
        response = client.get(path, headers={header: "192.0.2.7"})
        assert response.status_code == 403, header
        assert "keys create" in response.json()["detail"]


def test_with_keys_a_proxy_is_welcome_and_the_token_is_no_key(engine: Engine, store: Store) -> None:
    ring = KeyRing(store)
    key = {"Authorization": f"Bearer {ring.create(name='x', scope='admin')[1]}"}
    app = create_app(engine, Settings(keys="on"), keys=ring, token=TOKEN)
    with TestClient(app, base_url=LOCAL) as client:
        for path in ("/v1/stats", "/v1/decisions"):
            proxied = {**key, "X-Forwarded-For": "192.0.2.7"}
            assert client.get(path, headers=proxied).status_code == 200
            assert client.get(path, headers=BEARER).status_code == 401
            assert "token ended" in client.get(path, headers=BEARER).json()["detail"]
        elsewhere = {"Host": "evil.example"}  # no redirect names it
        assert client.get("/page/app.js/", headers=elsewhere).status_code == 404


def test_with_keys_off_an_admin_key_opens_administration(engine: Engine, store: Store) -> None:
    ring = KeyRing(store)
    keys = {scope: ring.create(name=scope, scope=scope)[1] for scope in ("write", "admin")}
    app = create_app(engine, Settings(keys="off"), watched=ring, token=TOKEN)
    with TestClient(app, base_url=LOCAL) as client:
        assert client.get("/v1/stats").status_code == 200  # keys stay off
        for scope, status in (("write", 403), ("admin", 200)):
            headers = {"Authorization": f"Bearer {keys[scope]}"}
            assert client.get("/v1/decisions", headers=headers).status_code == status
        assert client.get("/v1/decisions", headers=BEARER).status_code == 200


def test_without_a_token_administration_is_closed(engine: Engine) -> None:
    with TestClient(create_app(engine, Settings()), base_url=LOCAL) as client:
        for text in ("", "None", "null", TOKEN):
            headers = {"Authorization": f"Bearer {text}"}
            assert client.get("/v1/export", headers=headers).status_code == 401


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//", "http://", "\x00"])
def test_an_origin_that_is_none_is_refused(client: TestClient, origin: str) -> None:
    response = client.get("/v1/stats", headers={"Origin": origin})
    assert response.status_code == 403


def test_the_greeting_has_the_link_and_tells_about_proxies() -> None:
    token = new_token()
    assert token != new_token()
    lines = greeting(Settings(), 8000, arms=3, token=token)
    assert f"page: http://127.0.0.1:8000/#token={token}" in lines
    assert any("proxy" in line and "keys create" in line for line in lines)
    keyed = greeting(Settings(), 8000, arms=3, token=None)
    assert "token" not in "".join(keyed)
    assert lines[-1].startswith("then: ")
    asked = greeting(Settings(), 8000, arms=3, token=None, query='chef\'s "best" knife')[-2]
    body = json.loads(shlex.split(asked.removeprefix("try:  "))[-1])
    assert body == {"session_id": "s1", "query": 'chef\'s "best" knife'}
    assert keyed[-1].startswith("then: ")
