"""Every route is tried with every scope."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.responses import NEEDED, SCOPES
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.service.http.conftest import LOCAL

HOLDERS = ("nobody", "unknown", "revoked", *SCOPES)
BODIES: dict[str, Any] = {
    "/v1/recommend": {"session_id": "s", "query": "cat food"},
    "/v1/feedback": {"decision_id": "nobody", "accepted": None},
    "/v1/forecast": {"session_id": "s", "query": "cat food"},
    "/v1/ubi/events": [{"query_id": "q", "user_query": "cat food", "session_id": "u"}],
    "/v1/map": {"session_id": "s", "query": "cat food"},
    "/v1/explore": {},
    "/v1/simulate": {"users": 1},
    "/v1/block": {"query": "dog names"},
    "/v1/unblock": {"query": "dog names"},
    "/v1/patterns": {"pattern": "*mouse*"},
    "/v1/patterns/remove": {"pattern": "*elephant*"},
    "/v1/curated": {"queries": ["cat food by post"]},
    "/v1/pins": {"query": "dog names"},
    "/v1/pins/remove": {"query": "dog names"},
    "/v1/switch": {"on": True},
    "/v1/model/roll-back": {"forward": True},
    "/v1/model/end-fallback": {},
    "/v1/arms/approve": {"query": "never seen"},
    "/v1/arms/reject": {"query": "never seen"},
    "/v1/arms/remove": {"query": "dog names"},
}
ALLOWED = {
    "/v1/feedback": 404,
    "/v1/explore": 404,  # no table is served
    "/v1/patterns/remove": 422,
    "/v1/model/roll-back": 422,
    "/v1/model/end-fallback": 422,
    "/v1/arms/approve": 422,
    "/v1/arms/reject": 422,
    "/v1/users/{id}": 404,
    "/v1/sessions/{id}": 404,
}  # else 200


def paths_of(routes: Any) -> Iterator[tuple[str, str]]:
    """Yield every method and path of an application, including those of its routers."""
    for route in routes:
        inner: Any = getattr(route, "original_router", None) or getattr(route, "app", None)
        if hasattr(route, "path") and getattr(route, "methods", None):
            path = route.path.replace("{id:path}", "{id}")
            yield from ((method, path) for method in route.methods - {"HEAD"})
        elif getattr(inner, "routes", None):
            yield from paths_of(inner.routes)
        else:
            raise AssertionError(f"unknown kind of route: {route!r}")


@pytest.fixture
def keyed(engine: Engine, store: Store) -> Iterator[tuple[TestClient, dict[str, str]]]:
    ring = KeyRing(store)
    keys = {scope: ring.create(name=scope, scope=scope)[1] for scope in SCOPES}
    old, keys["revoked"] = ring.create(name="old", scope="admin")
    ring.revoke(old.id)
    keys["unknown"] = f"nq_{old.id}_secret"
    app = create_app(engine, Settings(keys="on"), keys=ring)
    with TestClient(app, base_url=LOCAL) as client:
        yield client, keys


def test_every_route_stands_in_the_table(keyed: tuple[TestClient, dict[str, str]]) -> None:
    found = set(paths_of(keyed[0].app.routes))  # type: ignore[attr-defined]
    assert {path for _, path in found} == set(NEEDED)
    assert {path for method, path in found if method == "POST"} == set(BODIES)


def test_every_route_with_every_scope(keyed: tuple[TestClient, dict[str, str]]) -> None:
    client, keys = keyed
    for method, path in paths_of(client.app.routes):  # type: ignore[attr-defined]
        for holder in HOLDERS:
            headers = {"Authorization": f"Bearer {keys[holder]}"} if holder in keys else {}
            body = BODIES.get(path)
            url = path.replace("{file}", "app.js").replace("{file:path}", "")
            status = client.request(method, url, json=body, headers=headers).status_code
            scope = NEEDED[path]
            if scope == "public":
                expected = 200
            elif holder not in SCOPES:
                expected = 401
            elif SCOPES.index(holder) < SCOPES.index(scope):
                expected = 403
            else:
                expected = ALLOWED.get(path, 200)
            assert status == expected, (method, path, holder)


def test_unlisted_paths_are_closed(keyed: tuple[TestClient, dict[str, str]]) -> None:
    client, keys = keyed
    assert client.get("/v1/new").status_code == 401
    read = {"Authorization": f"Bearer {keys['read']}"}
    assert client.get("/v1/new", headers=read).status_code == 403
    admin = {"Authorization": f"Bearer {keys['admin']}"}
    assert client.get("/v1/new", headers=admin).status_code == 404


def test_bad_bodies_of_strangers_are_not_read(
    keyed: tuple[TestClient, dict[str, str]],
) -> None:
    client, _ = keyed
    assert client.post("/v1/recommend", content=b"{").status_code == 401
    for wrong in ("Basic abc", "Bearer", "bearer  ", "Bearer \xe9"):
        headers = {b"Authorization": wrong.encode("latin-1")}
        response = client.get("/v1/stats", headers=headers)
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"


def test_the_documents_have_the_same_table() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "http.md").read_text()
    rows = re.findall(r"^\| `(?:GET|POST|DELETE) (/[^`]*)` \| (\w+) \|", text, flags=re.MULTILINE)
    assert dict(rows) == NEEDED
