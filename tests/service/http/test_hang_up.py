"""Clients that leave while an answer is streamed."""

import asyncio
import json

import pytest
from starlette.testclient import TestClient
from starlette.types import Message, Scope

from nextquery.service.log.schema import LONGEST_TRAIL
from nextquery.service.log.store import Store
from nextquery.service.routes.page import page_files
from tests.service.http.conftest import LOCAL, TOKEN
from tests.service.worlds import rarely


def scope_of(method: str, path: str) -> Scope:
    headers = {
        "host": LOCAL.partition("//")[2],
        "content-type": "application/json",
        "authorization": f"Bearer {TOKEN}",
    }
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},  # as uvicorn
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "state": {},
    }


def hang_up(client: TestClient, method: str, path: str, body: object, *, after: int) -> None:
    """Send a request, and leave after so many parts of its answer."""

    async def call() -> None:
        left = asyncio.Event()
        sent: list[Message] = [{"type": "http.request", "body": json.dumps(body).encode()}]
        parts = 0
        if after == 0:
            left.set()

        async def receive() -> Message:
            if sent:
                return sent.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(_: Message) -> None:
            nonlocal parts
            parts += 1
            if parts >= after:
                left.set()

        await client.app(scope_of(method, path), receive, send)

    asyncio.run(call())


@pytest.mark.parametrize("after", [3, *rarely(0, 1, 2)])
def test_whoever_leaves_a_simulation_ends_it(client: TestClient, after: int) -> None:
    hang_up(client, "POST", "/v1/simulate", {"users": 5}, after=after)
    response = client.post("/v1/simulate", json={"users": 1})
    assert response.status_code == 200, response.text


def test_whoever_leaves_an_export_leaves_nothing_open(client: TestClient, store: Store) -> None:
    for number in range(3):
        client.post("/v1/recommend", json={"session_id": f"s{number}", "query": "cat food"})
    for after in (0, 1, 2):
        hang_up(client, "GET", "/v1/export", {}, after=after)
    assert len(client.get("/v1/export").text.splitlines()) > 3


def test_the_page_keeps_to_the_length_of_a_trail() -> None:
    assert f"const TRAIL = {LONGEST_TRAIL};" in page_files()["explore.js"].decode()
