"""The clients: requests, safe retries, and errors by status."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import nextquery as nq
from nextquery.errors import Conflict, InvalidInput, StoreUnavailable, UnknownDecision

SLATE = {
    "decision_id": "d",
    "recommendations": [
        {
            "arm_id": 3,
            "text": "dogs",
            "score": 0.5,
            "propensity": 0.9,
            "propensity_estimated": False,
            "source": "selection",
        }
    ],
    "policy": "lin-ucb",
    "model_version": 7,
    "fallback": False,
}
WHO: dict[str, Any] = {"user_id": "u", "user_signature": "0" * 64}


class Scripted(ThreadingHTTPServer):
    """A server that returns scripted answers in order and records the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, Any]] = []
        self.retry_after: str | None = None
        self.requests: list[tuple[str, Any, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, body, self.headers["Authorization"]))
        status, answer = self.server.answers.pop(0)
        if status == 0:  # close the connection without a response
            self.close_connection = True
            return
        sent = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        if self.server.retry_after is not None and status == 503:
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_retry_carries_the_same_request_id(server: Scripted) -> None:
    server.answers = [(503, {}), (0, None), (200, SLATE), (200, SLATE)]
    with nq.Client(server.url, key="k") as client:
        slate = client.recommend("cats", session_id="s", user_id="u")
        client.recommend("cats", session_id="s")
    assert slate.recommendations[0].text == "dogs"
    ids = [body["request_id"] for _, body, _ in server.requests]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    assert {key for _, _, key in server.requests} == {"Bearer k"}


def test_both_clients_ask_the_same(server: Scripted) -> None:
    forecast = {"forecast": [{"arm_id": 1, "text": "x", "probability": 0.5}]}
    answers = [(200, SLATE), (200, {"status": "recorded"}), (503, {}), (200, forecast)]
    server.answers = answers * 2

    def ask() -> list[Any]:
        with nq.Client(server.url) as client:
            slate = client.recommend("cats", session_id="s", request_id="r", **WHO)
            status = client.feedback(slate.decision_id, accepted=3, **WHO)
            return [slate, status, client.forecast("cats", session_id="s", m=1, **WHO)]

    async def ask_async() -> list[Any]:
        async with nq.AsyncClient(server.url) as client:
            slate = await client.recommend("cats", session_id="s", request_id="r", **WHO)
            status = await client.feedback(slate.decision_id, accepted=3, **WHO)
            return [slate, status, await client.forecast("cats", session_id="s", m=1, **WHO)]

    assert ask() == asyncio.run(ask_async())
    assert server.requests[:4] == server.requests[4:]
    assert all(body.items() >= WHO.items() for _, body, _ in server.requests)


def test_a_slate_has_the_limit_of_the_service_unless_it_is_set(server: Scripted) -> None:
    server.answers = [(200, SLATE), (200, {"forecast": []})] * 4

    async def ask(**limit: float) -> None:
        async with nq.AsyncClient(server.url) as client:
            await client.recommend("cats", session_id="s", **limit)  # type: ignore[arg-type]
            await client.forecast("cats", session_id="s", **limit)  # type: ignore[arg-type]

    with nq.Client(server.url) as client:
        for limit in ({}, {"at_least": 0.2}):
            client.recommend("cats", session_id="s", **limit)  # type: ignore[arg-type]
            client.forecast("cats", session_id="s", **limit)  # type: ignore[arg-type]
            asyncio.run(ask(**limit))
    sent = [body.get("at_least") for _, body, _ in server.requests]
    assert sent == [None, 0.0] * 2 + [0.2] * 4


def test_what_is_not_known_about_the_user_is_not_sent(server: Scripted) -> None:
    server.answers = [(200, SLATE), (200, {"status": "recorded"}), (200, {"forecast": []})]
    with nq.Client(server.url) as client:
        client.recommend("cats", session_id="s", user_id="u")
        client.feedback("d", accepted=3)
        client.forecast("cats", session_id="s")
    names = [{"user_id", "user_signature"} & set(body) for _, body, _ in server.requests]
    assert names == [{"user_id"}, set(), set()]


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, UnknownDecision), (409, Conflict), (422, InvalidInput), (401, InvalidInput)],
)
def test_refusals_are_errors_of_ours(server: Scripted, status: int, error: type[Exception]) -> None:
    server.answers = [(status, {"detail": "because"})]
    with nq.Client(server.url) as client, pytest.raises(error, match="because"):
        client.feedback("d", accepted=None)


def test_a_service_that_stays_away(server: Scripted) -> None:
    server.answers = [(500, []), (503, {"detail": "busy"}), (503, {"detail": "busy"})]
    with nq.Client(server.url, retries=1) as client:
        with pytest.raises(StoreUnavailable, match="500"):  # a bug in the service: do not retry
            client.feedback("d", accepted=None)
        with pytest.raises(StoreUnavailable, match="busy"):
            client.feedback("d", accepted=None)
    with (
        nq.Client("http://127.0.0.1:9", retries=0) as client,
        pytest.raises(StoreUnavailable, match="reached"),
    ):
        client.stats()
    with pytest.raises(InvalidInput, match="retries"):
        nq.Client(retries=-1)


def test_a_long_retry_after_is_not_waited_for(server: Scripted) -> None:
    """The service asks for an hour; the client reports it within its deadline of seconds."""
    server.retry_after = "3600"
    server.answers = [(503, {"detail": "busy"})] * 2

    async def ask() -> None:
        async with nq.AsyncClient(server.url, deadline=5) as client:
            await client.recommend("cats", session_id="s")

    with (
        nq.Client(server.url, deadline=5) as client,
        pytest.raises(StoreUnavailable, match=r"busy Try again in 3600 s\."),
    ):
        client.recommend("cats", session_id="s")
    with pytest.raises(StoreUnavailable, match=r"busy Try again in 3600 s\."):
        asyncio.run(ask())
    assert server.answers == []


@pytest.mark.parametrize("asked", ["0", "Wed, 21 Oct 2037 07:28:00 GMT", "soon", "-1"])
def test_retry_after_is_followed_if_it_is_short_or_unreadable(server: Scripted, asked: str) -> None:
    server.retry_after = asked
    server.answers = [(503, {}), (200, SLATE)]
    with nq.Client(server.url) as client:
        assert client.recommend("cats", session_id="s").decision_id == "d"


def test_the_deadline_covers_all_attempts(server: Scripted) -> None:
    server.answers = [(503, {})] * 10_000
    with (
        nq.Client(server.url, retries=10_000, deadline=0.3) as client,
        pytest.raises(StoreUnavailable),
    ):
        client.feedback("d", accepted=None)
    assert 0 < len(server.requests) < 10
    with pytest.raises(InvalidInput, match="deadline"):
        nq.Client(deadline=0)


def test_fields_of_a_newer_service_are_left_out(server: Scripted) -> None:
    entry = {**SLATE["recommendations"][0], "colour": "red"}  # type: ignore[index]
    newer = {**SLATE, "recommendations": [entry], "since": "2031"}
    forecast = {"forecast": [{"arm_id": 1, "text": "x", "probability": 0.5, "lift": 2.0}]}
    server.answers = [(200, SLATE), (200, newer), (200, {**forecast, "since": "2031"})]
    with nq.Client(server.url) as client:
        assert client.recommend("cats", session_id="s") == client.recommend("cats", session_id="s")
        assert client.forecast("cats", session_id="s")[0].text == "x"
