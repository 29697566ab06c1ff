"""Slow, idle and too many connections, against a real socket."""

import asyncio
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from nextquery.errors import InvalidInput
from nextquery.service.http.limits import ConnectionLimits, LimitedConfig, most_connections
from tests.service.worlds import until

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
BIG = 40_000_000
LONG = 600.0  # a limit that is never reached


class Served:
    """A small application behind limited connections, and how to reach it."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.held, self.release = 0, threading.Event()
        self.listening = socket.create_server(("127.0.0.1", 0))
        config = LimitedConfig(
            self.answer, limits=limits, interface="asgi3", lifespan="off", log_config=None
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, args=([self.listening],))
        self.thread.start()
        assert until(lambda: self.server.started)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer without reading the body: quickly, on request, or at great length."""
        if scope["path"] == "/held":
            self.held += 1
            while not self.release.is_set():
                await asyncio.sleep(0.005)
        body = b"x" * (BIG if scope["path"] == "/big" else 2)
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for at in range(0, len(body), 100_000):
            more = at + 100_000 < len(body)
            part = body[at : at + 100_000]
            await send({"type": "http.response.body", "body": part, "more_body": more})

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Open a connection and send some bytes."""
        opened = socket.create_connection(self.listening.getsockname())
        opened.sendall(sent)
        return opened

    @property
    def open(self) -> int:
        """The number of connections."""
        return len(self.server.server_state.connections)

    def close(self) -> None:
        """Stop the server."""
        self.release.set()
        self.server.should_exit = self.server.force_exit = True
        self.thread.join()
        self.listening.close()


Serve = Callable[[ConnectionLimits], Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(limits: ConnectionLimits) -> Served:
            served = Served(limits)
            stack.callback(served.close)
            return served

        yield start


def read(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    received = b""
    with connection, suppress(ConnectionError):
        while part := connection.recv(65_536):
            received += part
    return received


def answer(connection: socket.socket) -> bytes:
    """Read one answer; the connection stays open."""
    received = b""
    while not received.endswith(b"xx"):
        part = connection.recv(1000)
        assert part, received
        received += part
    return received


def test_half_a_request_and_none_are_closed(serve: Serve) -> None:
    served = serve(ConnectionLimits(100, header_s=1.0, idle_s=LONG))
    assert read(served.connect(b"GET / HTTP/1.1\r\nHost: local")).startswith(b"HTTP/1.1 408 ")
    assert read(served.connect()) == b""
    again = served.connect(GET % b"/")  # the second request of a connection
    assert b" 200 " in answer(again)
    again.sendall(b"GET")
    assert b" 408 " in read(again)


def test_a_byte_now_and_then_gains_no_time(serve: Serve) -> None:
    served = serve(ConnectionLimits(100, header_s=0.2, idle_s=LONG))
    with served.connect(b"GET / HTTP/1.1\r\n") as slow:
        slow.settimeout(0.02)
        while True:
            with suppress(TimeoutError):
                try:
                    slow.sendall(b"a")
                    if slow.recv(1000) == b"":
                        break
                except ConnectionError:
                    break
    assert until(lambda: served.open == 0)


def test_a_body_that_nobody_reads_is_not_awaited(serve: Serve) -> None:
    served = serve(ConnectionLimits(100, header_s=1.0, idle_s=LONG))
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    assert b" 200 " in read(served.connect(head + b"half"))
    whole = served.connect(head + b"x" * 50)
    assert b" 200 " in answer(whole)
    whole.sendall(b"x" * 50)  # now the connection could be used again
    assert read(whole) == b""


def test_an_idle_connection_is_closed(serve: Serve) -> None:
    served = serve(ConnectionLimits(100, header_s=LONG, idle_s=0.2))
    assert b" 200 " in read(served.connect(GET % b"/"))


def test_a_client_that_does_not_read_is_disconnected(serve: Serve) -> None:
    served = serve(ConnectionLimits(100, header_s=LONG, idle_s=0.2))
    with served.connect(GET % b"/big") as deaf:
        assert until(lambda: served.open == 1)
        assert until(lambda: served.open == 0)
        assert len(read(deaf)) < BIG


def test_whoever_sends_nothing_makes_room_for_a_request(serve: Serve) -> None:
    served = serve(ConnectionLimits(4, header_s=LONG, idle_s=LONG))
    kept = served.connect(GET % b"/")
    assert b" 200 " in answer(kept)
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(served.connect(b"GET / HTTP/1.1\r\n"))
        assert until(lambda: served.open == 4)
        with served.connect(GET % b"/") as new:
            assert b" 200 " in answer(new)
        kept.sendall(GET % b"/")  # a client that had an answer is closed last
        assert b" 200 " in answer(kept)
        kept.close()


def test_if_all_are_busy_a_new_one_is_refused(serve: Serve) -> None:
    served = serve(ConnectionLimits(3, header_s=LONG, idle_s=LONG))
    busy = [served.connect(GET % b"/held") for _ in range(3)]
    assert until(lambda: served.held == 3)
    refused = read(served.connect())
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 1" in refused
    served.release.set()
    for connection in busy:
        assert b" 200 " in answer(connection)
        connection.close()


@contextmanager
def files(soft: int) -> Iterator[None]:
    """Pretend that the process may open so many files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource, "getrlimit", lambda _: (soft, soft))
        patch.setattr(os, "listdir", lambda _: ["0"] * 44)
        yield


def test_the_number_of_connections_is_below_that_of_files() -> None:
    with files(128):
        assert most_connections(None) == 28
        assert most_connections(20) == 20
        with pytest.raises(InvalidInput, match="max_connections=29"):
            most_connections(29)
    with files(100_000):
        assert most_connections(None) == 4096
    with files(64), pytest.raises(InvalidInput, match="ulimit"):
        most_connections(None)
