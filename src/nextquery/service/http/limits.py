"""Limits on what clients can use up: the size of bodies, the time they take, and connections.

Bodies have limits on their type, their size, and the time they take to arrive. Connections have
limits on their number, on the time for a request to arrive, and on idle time.

A connection costs a file descriptor. Without limits, clients that send half a request, or none,
use up all descriptors. Then the store cannot open its files either.
"""

import asyncio
import os
import resource
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from nextquery.errors import InvalidInput
from nextquery.service.http.responses import LOGGER, problem, quoted


class BodyLimits:
    """Reads the whole body before it calls `app`; answers 408, 413 or 415.

    Parameters
    ----------
    app : the application inside.
    posts : the paths that take a body; others pass, and answer 404 or 405.
    most : largest body in bytes.
    seconds : time in which the body must arrive.
    """

    def __init__(self, app: ASGIApp, *, posts: Collection[str], most: int, seconds: float) -> None:
        self._app, self._posts, self._most, self._seconds = app, posts, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer with an error; do nothing if the client left."""
        takes_body = scope["type"] == "http" and scope["method"] == "POST"
        if not takes_body or scope["path"] not in self._posts:
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            allowed = "Content-Type: application/json"
            return await _error(scope, 415, f"received {quoted(kind)}; send {allowed}.")(
                scope, receive, send
            )
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and (len(declared) > 15 or int(declared) > self._most):
            return await self._too_large(scope, receive, send)
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._read(receive)
        except TimeoutError:
            late = f"the body did not arrive within {self._seconds:g} s. Send it again."
            return await _error(scope, 408, late)(scope, receive, send)
        if body is None:
            return None
        if len(body) > self._most:
            return await self._too_large(scope, receive, send)
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return given.pop() if given else await receive()

        await self._app(scope, again, send)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = f"the body may have at most {self._most} bytes. Send a shorter one."
        await _error(scope, 413, limit)(scope, receive, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """Read the body, at most one message over the limit; None if the client left."""
        parts, size = [], 0
        while size <= self._most:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body", False):
                break
        return b"".join(parts)


def _error(scope: Scope, status: int, detail: str) -> Response:
    # The rest of the body is not read, so the connection cannot be used again.
    headers = {"Connection": "close"}
    return problem(status, detail, request_id=scope["state"]["request_id"], headers=headers)


_MOST = 4096  # connections by default, if there are more descriptors than that
_FEWEST = 8
_SPARE = 56  # descriptors for the store, for files, and for connections on their way in and out
_ACCEPTED_PER_TURN = 4  # connections accepted in one turn of the event loop
_FULL = b"all connections are in use. Try again in a second."
_LATE = b"the request did not arrive in time. Send it again."


class ConnectionLimits(NamedTuple):
    """Limits on the connections of one worker."""

    most: int
    header_s: float  #: time in which the head of a request must arrive
    idle_s: float  #: time between requests, and time without reading the answer


def most_connections(wanted: int | None) -> int:
    """Return how many connections this process can have, or `wanted` if it can have so many."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    room = files - len(os.listdir("/dev/fd")) - _SPARE
    if room < max(_FEWEST, wanted or 0):
        raise InvalidInput(
            f"this process may open {files} files, which leaves {max(0, room)} for connections; "
            + (f"received max_connections={wanted}" if wanted else f"it needs {_FEWEST} or more")
            + ". Allow more files with ulimit -n, or set a smaller max_connections."
        )
    return wanted or min(room, _MOST)


class LimitedConfig(uvicorn.Config):
    """The configuration of a server with limits on its connections."""

    def __init__(self, app: Any, *, limits: ConnectionLimits, **more: Any) -> None:
        super().__init__(app, http=Connection, loop=f"{__name__}:LimitedEventLoop", **more)
        self.limits = limits


class LimitedEventLoop(asyncio.SelectorEventLoop):
    """An event loop that accepts few connections per turn.

    A plain loop accepts as many at once as may wait, before any of them can be refused, and uses up
    the descriptors.
    """

    async def create_server(self, *args: Any, backlog: int = 100, **more: Any) -> Any:
        """Create a server as usual; connections that wait stay with the operating system."""
        server = await super().create_server(*args, backlog=_ACCEPTED_PER_TURN, **more)
        if more.get("sock") is not None:
            more["sock"].listen(backlog)
        return server


class Connection(H11Protocol):
    """A connection that is closed if the client owes bytes for too long.

    If all are in use, the one that has waited longest without a request is closed for a new one;
    if all have requests, the new one gets 503.
    """

    def __init__(self, config: LimitedConfig, *args: Any, **more: Any) -> None:
        super().__init__(config, *args, **more)
        self._limits = config.limits
        self.timeout_keep_alive = config.limits.idle_s  # type: ignore[assignment]
        self._late: asyncio.TimerHandle | None = None  # runs while the client owes bytes
        self._stuck: asyncio.TimerHandle | None = None  # runs while the client does not read
        self._free_since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, make room for it, or refuse it."""
        if len(self.connections) >= self._limits.most and not self._make_room():
            self.transport = transport
            self._refuse(503, _FULL)
            return
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        for timer in (self._late, self._stuck, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; the first bytes of a request start its time."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that nobody needs."""
        self._free_since = self.loop.time()
        super().on_response_complete()
        self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that had no request for a while."""
        super().timeout_keep_alive_handler()
        self._abort_later()

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        self._abort_later()

    def resume_writing(self) -> None:
        """Go on: the client reads again."""
        super().resume_writing()
        if self._stuck is not None and not self.transport.is_closing():
            self._stuck.cancel()
            self._stuck = None

    @property
    def free(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Run the timer while the client owes the head of a request, or the rest of a body."""
        state, idle = self.conn.their_state, self.timeout_keep_alive_task is not None
        owes = (state is h11.IDLE and not idle) or (state is h11.SEND_BODY and self.free)
        if not owes or self.transport.is_closing():
            if self._late is not None:
                self._late.cancel()
            self._late = None
        elif self._late is None:
            self._late = self.loop.call_later(self._limits.header_s, self._too_late)

    def _too_late(self) -> None:
        if not self.transport.is_closing():
            if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
                self._refuse(408, _LATE)
            else:
                self.transport.close()
            self._abort_later()

    def _abort_later(self) -> None:
        if self._stuck is None:
            self._stuck = self.loop.call_later(self._limits.idle_s, self.transport.abort)

    def _refuse(self, status: int, detail: bytes) -> None:
        """Answer in a few bytes, without the application, and close."""
        if status == 503:
            LOGGER.warning("all %d connections are in use; one was refused", self._limits.most)
        retry = b"Retry-After: 1\r\n" if status == 503 else b""
        self.transport.write(
            b"HTTP/1.1 %d \r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
            b"%sContent-Length: %d\r\n\r\n%s" % (status, retry, len(detail), detail)
        )
        self.transport.close()

    def _make_room(self) -> bool:
        """Close the connection that has waited longest, first among those without any request."""
        free = (one for one in self._others() if one.free and not one.transport.is_closing())
        oldest = min(free, key=lambda one: (one.cycle is not None, one._free_since), default=None)
        if oldest is None:
            return False
        LOGGER.warning("all %d connections are in use; the oldest was closed", self._limits.most)
        self.connections.discard(oldest)
        (oldest.transport.abort if oldest.cycle is None else oldest.transport.close)()
        return True

    def _others(self) -> Iterator["Connection"]:
        return (one for one in self.connections if isinstance(one, Connection))
