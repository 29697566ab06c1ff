"""The outermost layer: request ids, traces, the request log, security headers, unexpected errors.

If tracing is configured, every request has a span around everything else.
"""

import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextquery.service import tracing
from nextquery.service.http.metrics import Metrics
from nextquery.service.http.responses import LOGGER, problem, row

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLog:
    """Logs and counts every request; no exception and no response without headers passes it.

    Parameters
    ----------
    app : the application inside.
    metrics : counts the requests.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, count and log a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception:
            LOGGER.exception("internal error", extra={"fields": {"request_id": request_id}})
            if status == 0:
                detail = "internal error. Look for this request id in the log of the service."
                answer = problem(500, detail, request_id=request_id)
                await answer(scope, receive, sending)
        seconds = time.perf_counter() - started
        path = row(scope["path"]) or "other"  # an unknown path may contain private text
        if status:  # else the client left
            self._metrics.answered(path, status, seconds)
        fields = {
            "request_id": request_id,
            "method": scope["method"],
            "path": path,
            "status": status,
            "ms": round(1000 * seconds, 2),
            "key": scope["state"].get("key", ""),
        }
        LOGGER.info("request", extra={"fields": fields})


class Traces:
    """Makes a span with method, route, status and request id; no query and no id of a person."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in its span."""
        if scope["type"] != "http" or not tracing.on():
            return await self._app(scope, receive, send)
        route = row(scope["path"]) or "other"  # an unknown path may contain private text
        headers = Headers(scope=scope)
        caller = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        with tracing.request(f"{scope['method']} {route}", caller) as span:
            span.set_attribute("http.request.method", scope["method"])
            span.set_attribute("http.route", route)

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    answered = Headers(raw=message["headers"])
                    span.set_attribute("http.response.status_code", message["status"])
                    span.set_attribute("request_id", answered.get("x-request-id", ""))
                await send(message)

            await self._app(scope, receive, sending)
