"""Limits on request bodies: their type, their size, and the time they take to arrive."""

import asyncio
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextquery.service.http.error_responses import problem, quoted


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
