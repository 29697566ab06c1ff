"""Routes for monitoring: liveness, readiness, Prometheus."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.errors import StoreUnavailable
from nextquery.service.http import bodies
from nextquery.service.http.error_responses import Responses
from nextquery.service.http.served import served

router = APIRouter()
_METRICS: Responses = {200: {"content": {"text/plain": {"example": "nextquery_position 3120.0"}}}}
_NOT_READY: Responses = {503: {"model": bodies.Health, "description": "Not ready."}}


@router.get("/healthz", response_model=bodies.Health)
async def healthz() -> Response:
    """Check that the process runs."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=bodies.Health, responses=_NOT_READY)
async def readyz(request: Request) -> Response:
    """Check that requests can be answered: by the store, the model and all shards it needs."""
    here = served(request)
    try:
        health = await here.calls(here.engine.health)
    except StoreUnavailable:
        return JSONResponse({"status": "the store does not answer"}, status_code=503)
    failures = {
        "the store is unavailable": not health.store_ok,
        "the model cannot read the log": not health.learning,
        f"{len(health.away)} of {health.shards} shards are unavailable": bool(health.away)
        and not here.allows_partial,
    }
    status = "; ".join(failure for failure, true in failures.items() if true)
    shards = {"shards": health.shards, "away": health.away} if health.shards else {}
    return JSONResponse({"status": status or "ok", **shards}, status_code=503 if status else 200)


@router.get("/metrics", response_class=Response, responses=_METRICS)
async def metrics(request: Request) -> Response:
    """Return metrics for Prometheus."""
    here = served(request)
    text = await here.calls(here.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
