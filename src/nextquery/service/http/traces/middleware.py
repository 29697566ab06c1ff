"""A span for every request, outside everything else."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nextquery import tracing
from nextquery.service.http.scopes import row


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
