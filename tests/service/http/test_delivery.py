"""A slate counts as delivered only if the client was still connected."""

import asyncio
import json
from typing import Any

import pytest

from nextquery.service.engine.engine import Engine
from nextquery.service.http.app import create_app
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings

BODY = json.dumps({"session_id": "s", "query": "cat food"}).encode()
SCOPE = {
    "type": "http",
    "asgi": {"version": "3.0"},
    "http_version": "1.1",
    "method": "POST",
    "path": "/v1/recommend",
    "raw_path": b"/v1/recommend",
    "query_string": b"",
    "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
}


@pytest.mark.parametrize("connected", [True, False])
def test_a_client_that_has_gone_saw_nothing(engine: Engine, store: Store, connected: bool) -> None:
    app = create_app(engine, Settings())
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": BODY, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not messages and connected:
            await asyncio.Event().wait()
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(dict(SCOPE), receive, send))
    assert sent[0]["status"] == 200
    engine.close()
    (decision,) = store.decisions()
    assert decision.delivered is connected


def test_a_body_that_never_comes_whole_is_left_alone(engine: Engine, store: Store) -> None:
    app = create_app(engine, Settings())
    messages: list[dict[str, Any]] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"{", "more_body": True},
    ]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(dict(SCOPE), receive, send))
    assert sent == []  # the client has disconnected
    assert list(store.decisions()) == []
