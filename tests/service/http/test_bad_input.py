"""Bad requests get a clear 4xx response."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

JSON = {"Content-Type": "application/json"}
DEEP = 12_000


def body(**changed: Any) -> bytes:
    return json.dumps({"session_id": "s", "query": "cat food", **changed}).encode()


BAD: list[tuple[bytes, int, str]] = [
    (b"", 422, "body"),
    (b"{", 400, "not complete JSON"),
    (body()[:-7], 400, "not complete JSON"),
    (b"[1, 2]", 422, "body"),
    (b"null", 422, "body"),
    (b"\xff\xfe", 400, ""),
    (b'{"a":' * DEEP, 400, ""),
    (b"[" * DEEP + b"]" * DEEP, 400, ""),
    (body(query="\ud800"), 422, "query"),
    (body(query="cat \x00 food"), 422, "control characters"),
    (body(query="cat \x1b[31m food"), 422, "control characters"),
    (body(query=" \n "), 422, "not blank"),
    (body(query=""), 422, "query"),
    (body(query="x" * 2001), 422, "2000"),
    (body(query=7), 422, "string"),
    (body(session_id="a\nb"), 422, "session_id"),
    (body(session_id="x" * 257), 422, "256"),
    (body(user_id="\udfff"), 422, "user_id"),
    (body(m=0), 422, "m"),
    (body(m=21), 422, "20"),
    (body(m=101), 422, "100"),
    (body(m=2.5), 422, "m"),
    (body(m="3"), 422, "m"),
    (body(m=True), 422, "m"),
    (body(m=float("nan")), 422, "nan"),
    (body(m=float("inf")), 422, "inf"),
    (body(m=10**400), 422, "m"),
    (body(m=None), 422, "m"),
    (body(explain=0), 422, "explain"),
    (body(explain="yes"), 422, "explain"),
    (body(qery="x"), 422, "qery"),
    (b'{"query": "cat"}', 422, "session_id"),
]


def test_bodies_that_cannot_be_used(client: TestClient) -> None:
    for content, status, word in BAD:
        response = client.post("/v1/recommend", content=content, headers=JSON)
        assert response.status_code == status, (content[:99], response.text)
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["status"] == status
        assert problem["request_id"]
        assert word in problem["detail"], content[:99]


def test_what_is_unusual_but_right(client: TestClient) -> None:
    for query in ("select *\nfrom\tcats", "猫の餌", "🐈" * 50, "e\u0301", "\u202eabc", "a" * 2000):
        response = client.post("/v1/recommend", content=body(query=query), headers=JSON)
        assert response.status_code == 200, (query, response.text)


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"Content-Type": "text/plain"}, body(), 415),
        ({}, body(), 415),
        (JSON, b" " * 70_000, 413),
        ({"Content-Type": "application/json; charset=utf-8"}, body(), 200),
    ],
)
def test_types_and_sizes(
    client: TestClient, headers: dict[str, str], content: bytes, status: int
) -> None:
    response = client.post("/v1/recommend", content=content, headers=headers)
    assert response.status_code == status


def test_a_body_in_pieces_is_measured_too(client: TestClient) -> None:
    chunks = (b" " * 1000 for _ in range(100))
    assert client.post("/v1/recommend", content=chunks, headers=JSON).status_code == 413


def test_wrong_paths_and_methods(client: TestClient) -> None:
    assert "/v1/recommend" in client.get("/v2/recommend").json()["detail"]
    assert client.get("/v1/recommend").status_code == 405
    assert client.delete("/v1/stats").status_code == 405
    for path in ("/v1/stats", "/healthz", "/", "/page/app.js"):
        assert client.post(path).status_code == 405, path  # whatever the body is
    assert client.post("/v2/recommend").status_code == 404


def test_feedback_takes_arms_alone(client: TestClient) -> None:
    wrong: list[object] = [-(2**63) - 1, 2**63, 1.5, "1", float("nan"), [], True]
    for accepted in wrong:
        content = json.dumps({"decision_id": "d", "accepted": accepted}).encode()
        refused = client.post("/v1/feedback", content=content, headers=JSON)
        assert refused.status_code == 422, accepted
    assert client.post("/v1/feedback", json={"decision_id": "d"}).status_code == 422
