"""A body comes whole, soon and not too large, or the request is refused."""

import asyncio

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextquery.service.http.error_responses import problem, quoted


class WholeBody:
    """Reads the body before `app` is asked; answers 408, 413 or 415.

    Parameters
    ----------
    app : what lies behind.
    most : bytes allowed.
    seconds : time allowed for them to arrive.
    """

    def __init__(self, app: ASGIApp, *, most: int, seconds: float) -> None:
        self._app, self._most, self._seconds = app, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or refuse; nobody is answered who has gone."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            allowed = "Content-Type: application/json"
            return await _refuse(scope, 415, f"received {quoted(kind)}; send {allowed}.")(
                scope, receive, send
            )
        too_large = _refuse(scope, 413, f"the body may hold {self._most} bytes; shorten it.")
        declared = headers.get("content-length", "0")
        if declared.isdecimal() and (len(declared) > 15 or int(declared) > self._most):
            return await too_large(scope, receive, send)
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._read(receive)
        except TimeoutError:
            late = f"the body did not arrive within {self._seconds:g} s; send it again."
            return await _refuse(scope, 408, late)(scope, receive, send)
        if body is None:
            return None
        if len(body) > self._most:
            return await too_large(scope, receive, send)
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return given.pop() if given else await receive()

        await self._app(scope, again, send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body, one byte more than allowed at most; None: the client went away."""
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


def _refuse(scope: Scope, status: int, detail: str) -> Response:
    # What is left of the body is not read, so the connection cannot carry another request.
    headers = {"Connection": "close"}
    return problem(status, detail, request_id=scope["state"]["request_id"], headers=headers)
