"""The service as an ASGI application: routes, and around them body, gate, origins and log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response

from nextquery.errors import (
    ClusterUnavailable,
    Conflict,
    InvalidInput,
    StorageError,
    UnknownDecision,
)
from nextquery.service.answer.engine import Engine
from nextquery.service.answer.simulation import Stage
from nextquery.service.http.access import Gate
from nextquery.service.http.body_limits import WholeBody
from nextquery.service.http.error_responses import mistakes, problem
from nextquery.service.http.json_log import LOGGER
from nextquery.service.http.keys import KeyRing
from nextquery.service.http.metrics import Metrics
from nextquery.service.http.request_log import Around
from nextquery.service.http.routes import control as operations
from nextquery.service.http.routes import explore as exploring
from nextquery.service.http.routes import operate as admin
from nextquery.service.http.routes import page as page_files
from nextquery.service.http.routes import recommend as routes
from nextquery.service.http.scopes import NEEDED, PUBLIC
from nextquery.service.settings.settings import Settings

_STATUS = {
    UnknownDecision: 404,
    Conflict: 409,
    InvalidInput: 422,
    ClusterUnavailable: 503,
    StorageError: 503,
}
_AWAY = "a part of the arms cannot be searched now; nothing was written. Try again."


def create_app(
    engine: Engine,
    settings: Settings,
    *,
    keys: KeyRing | None = None,
    watched: KeyRing | None = None,
) -> FastAPI:
    """The application over an engine, which is closed when the application stops.

    Parameters
    ----------
    engine : what answers.
    settings : limits and origins.
    keys : the keys; None: none are needed (on this machine's own address alone).
    watched : without `keys`, those that are needed from the moment on that there are any.
    """
    metrics = Metrics()
    metrics.watch(engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        engine.close()

    app = FastAPI(
        title="nextquery",
        description="Which query to recommend next, learnt from a query log and from clicks.",
        version="1",
        lifespan=lifespan,
        docs_url=None,  # the page would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # served below, so that it has a scope like everything else
    )
    app.state.engine, app.state.metrics = engine, metrics
    app.state.seconds = settings.request_timeout_s
    app.state.partial = settings.on_missing == "partial"
    app.state.stage = Stage(engine)
    app.include_router(routes.router)
    app.include_router(operations.router)
    app.include_router(exploring.router)
    app.include_router(admin.router)
    app.include_router(page_files.router)
    schema = _schema(app)
    app.add_api_route("/openapi.json", lambda: JSONResponse(schema), include_in_schema=False)
    _answer_errors(app)
    app.add_middleware(WholeBody, most=settings.max_body_bytes, seconds=settings.body_timeout_s)
    app.add_middleware(Gate, settings=settings, keys=keys, watched=watched)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-Id"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    app.add_middleware(Around, metrics=metrics)
    return app


def _answer_errors(app: FastAPI) -> None:
    async def unusable(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = mistakes(error.errors())
        malformed = any(e["type"] == "json_invalid" for e in error.errors())
        said = " ".join(f"{m.field}: received {m.received}; {m.allowed}." for m in found[:3])
        words = "the body is not JSON, or was cut short." if malformed else said
        status = 400 if malformed else 422
        return problem(
            status,
            words,
            request_id=request.state.request_id,
            errors=[] if malformed else found,
        )

    async def on_purpose(request: Request, error: Exception) -> Response:
        status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
        wait = {"Retry-After": "1"} if status == 503 else {}
        words = str(error)
        if isinstance(error, ClusterUnavailable):  # which parts is for those who run the service
            LOGGER.warning("refused: %s", words)
            request.app.state.metrics.shards_missed("refused")
            words = _AWAY
        return problem(status, words, request_id=request.state.request_id, headers=wait)

    async def by_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        known = ", ".join(NEEDED)
        words = {404: f"no such path; there are {known}.", 405: "this path takes another method."}
        detail = words.get(error.status_code, str(error.detail))
        headers = error.headers
        return problem(
            error.status_code, detail, request_id=request.state.request_id, headers=headers
        )

    app.add_exception_handler(RequestValidationError, unusable)
    app.add_exception_handler(HTTPException, by_http)
    for kind in _STATUS:
        app.add_exception_handler(kind, on_purpose)


def _schema(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the scope of every route and problems under their own type."""
    schema = app.openapi()
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
