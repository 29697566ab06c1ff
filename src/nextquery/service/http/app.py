"""The ASGI application and its OpenAPI document.

Routes are inside body limits, access control, CORS and the request log. The document has the
scopes of routes, limits set by settings, and errors with their media type.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import HTMLResponse, JSONResponse, Response

from nextquery.errors import (
    ClusterUnavailable,
    Conflict,
    InvalidInput,
    StorageError,
    UnknownDecision,
    WrongSignature,
)
from nextquery.service import tracing
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.explore import ExploredTable
from nextquery.service.engine.page_work import Simulator
from nextquery.service.engine.requests import Trust
from nextquery.service.http.access import Access
from nextquery.service.http.bodies import ForecastBody, RecommendBody
from nextquery.service.http.documentation import (
    HEADERS,
    Endpoint,
    api_page,
    endpoints,
    only_live_links,
    problem_fields,
)
from nextquery.service.http.documentation import router as documentation_router
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.limits import BodyLimits
from nextquery.service.http.metrics import Metrics
from nextquery.service.http.request_log import RequestLog, Traces
from nextquery.service.http.responses import (
    LOGGER,
    NEEDED,
    PUBLIC,
    WorkerContext,
    context_of,
    mistakes,
    problem,
)
from nextquery.service.log.database import StoreCalls
from nextquery.service.routes.operate import router as operate_router
from nextquery.service.routes.page import page_router
from nextquery.service.routes.page import router as view_router
from nextquery.service.routes.recommend import forecast_router
from nextquery.service.routes.recommend import router as recommend_router
from nextquery.service.settings import Settings


def openapi_document(app: FastAPI, *, m_max: int) -> dict[str, Any]:
    """Return the OpenAPI document of an application that answers with at most `m_max` queries."""
    schema = app.openapi()
    for body in (RecommendBody, ForecastBody):
        m = schema["components"]["schemas"][body.__name__]["properties"]["m"]
        m |= {"maximum": m_max, "default": min(m["default"], m_max)}
    bearer = {"type": "http", "scheme": "bearer", "description": "nextquery keys create"}
    schema["components"]["securitySchemes"] = {"key": bearer}
    for path, methods in schema["paths"].items():
        scope = NEEDED[path]
        for operation in methods.values():
            operation["x-scope"] = scope
            operation["security"] = [] if scope == PUBLIC else [{"key": []}]
            for response in operation["responses"].values():
                content = response.get("content", {})
                shown = content.get("application/json", {}).get("schema", {})
                if shown.get("$ref", "").endswith("/Problem"):
                    content["application/problem+json"] = content.pop("application/json")
    return schema


_ROUTERS = (
    *(recommend_router, forecast_router, view_router, operate_router),
    *(page_router, documentation_router),
)
_POSTS = {
    route.path
    for router in _ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and "POST" in (route.methods or ())
}
_STATUS = {
    UnknownDecision: 404,
    Conflict: 409,
    WrongSignature: 403,
    InvalidInput: 422,
    ClusterUnavailable: 503,
    StorageError: 503,
}
CLOSE_S = 6.0
"""Seconds in which the engine must close; what the database does not take by then is given up."""
_UNAVAILABLE = "a part of the arms is unavailable. Nothing was written. Try again."


def create_app(
    engine: Engine,
    settings: Settings,
    *,
    keys: KeyRing | None = None,
    watched: KeyRing | None = None,
    token: str | None = None,
    table: ExploredTable | None = None,
) -> FastAPI:
    """Return the application for an engine, which is closed when the application stops.

    Parameters
    ----------
    engine : answers the requests.
    settings : limits and allowed origins.
    keys : the API keys; None if paths below admin need none (only on localhost).
    watched : without `keys`, the keys that open admin paths; with ``keys=auto``, all paths need
        one as soon as one exists.
    token : without `keys`, opens admin paths too; without a token, only a key does.
    table : what people explore by example, if anything.
    """
    metrics = Metrics()
    metrics.watch(engine)

    calls = StoreCalls(timeout_s=min(settings.store_timeout_s, settings.request_timeout_s))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        calls.close()
        engine.close(within_s=CLOSE_S)
        tracing.stop()

    app = _with_routes(lifespan=lifespan)
    app.state.served = WorkerContext(
        engine,
        metrics,
        Simulator(engine),
        calls,
        timeout_s=settings.request_timeout_s,
        allows_partial=settings.on_missing == "partial",
        trust=Trust(
            settings.user_signing_secret.get_secret_value(),
            settings.user_signing_secret_before.get_secret_value(),
        ),
        table=table,
    )
    m_max = engine.options.m_max
    app.add_api_route(
        "/openapi.json", lambda: JSONResponse(_document(m_max)), include_in_schema=False
    )
    app.add_api_route(
        "/api",
        lambda: HTMLResponse(only_live_links(_api_page(m_max)), headers=HEADERS),
        include_in_schema=False,
    )
    _add_error_handlers(app)
    app.add_middleware(
        BodyLimits, posts=_POSTS, most=settings.max_body_bytes, seconds=settings.body_timeout_s
    )
    app.add_middleware(
        Access, settings=settings, calls=calls, keys=keys, watched=watched, token=token
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    app.add_middleware(RequestLog, metrics=metrics)
    if tracing.start_if_configured():
        app.add_middleware(Traces)
    return app


def _with_routes(**more: Any) -> FastAPI:
    app = FastAPI(
        redirect_slashes=False,  # a redirect would name the Host of the request
        title="nextquery",
        description="Recommends the next query. Learns from a query log and from clicks.",
        version="1",
        docs_url=None,  # that page would load scripts from other hosts
        redoc_url=None,
        openapi_url=None,  # added by `create_app`, so that it has a scope like every route
        **more,
    )
    for router in _ROUTERS:
        app.include_router(router)
    return app


@lru_cache(maxsize=4)
def _document(m_max: int) -> dict[str, Any]:
    """Return the OpenAPI document, made on the first request: a start does not wait for it."""
    return openapi_document(_with_routes(), m_max=m_max)


@lru_cache(maxsize=4)
def _api_page(m_max: int) -> str:
    return api_page(described(m_max), problem_fields(_document(m_max)))


def described(m_max: int) -> list[Endpoint]:
    """Return every endpoint of a service that answers with at most `m_max` queries."""
    return endpoints(_document(m_max))


def _add_error_handlers(app: FastAPI) -> None:
    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        request_id = request.state.request_id
        if any(e["type"] == "json_invalid" for e in error.errors()):
            return problem(400, "the body is not complete JSON.", request_id=request_id)
        errors = mistakes(error.errors())
        detail = " ".join(f"{e.field}: received {e.received}; {e.allowed}." for e in errors[:3])
        return problem(422, detail, request_id=request_id, errors=errors)

    async def ours(request: Request, error: Exception) -> Response:
        status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
        wait = {"Retry-After": "1"} if status == 503 else {}
        detail = str(error)
        if isinstance(error, ClusterUnavailable):  # only operators may know which shards
            LOGGER.warning("unavailable: %s", detail)
            context_of(request).metrics.shards_missed("refused")
            detail = _UNAVAILABLE
        return problem(status, detail, request_id=request.state.request_id, headers=wait)

    async def by_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        details = {
            404: f"there is no such path. Use one of {', '.join(NEEDED)}.",
            405: "this path does not support the method.",
        }
        detail = details.get(error.status_code, str(error.detail))
        headers = error.headers
        return problem(
            error.status_code, detail, request_id=request.state.request_id, headers=headers
        )

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, by_http)
    for kind in _STATUS:
        app.add_exception_handler(kind, ours)
