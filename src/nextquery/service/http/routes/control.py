"""The routes for those who run the service: blocks, the kill switch, statistics, health."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from nextquery.service.http import bodies as b
from nextquery.service.http.documented_errors import Responses, refusals

router = APIRouter()
_COUNTS = {"rounds": 1200, "answered": 1180, "accepted": 402, "failed": 700, "acceptance": 0.365}
_EXAMPLE = {
    "position": 3120,
    "totals": _COUNTS,
    "coverage": {"arms": 35896, "arms_shown": 2104, "share_of_arms_shown": 0.0586},
    "by": "hour",
    "rows": [{"policy": "lin-ucb-memory", "from": "2026-11-15T10:00:00Z", **_COUNTS}],
}
_STATS: Responses = {200: {"content": {"application/json": {"example": _EXAMPLE}}}}
_SCRAPED: Responses = {200: {"content": {"text/plain": {"example": "nextquery_position 3120.0"}}}}
_NOT_READY: Responses = {503: {"model": b.Health, "description": "Not ready."}}


@router.post("/v1/block", response_model=b.PositionAnswer, responses=refusals())
async def block(body: b.BlockBody, request: Request) -> Response:
    """Never answer with this query again, from the very next answer of every worker."""
    return await _position(request.app.state.engine.block, body.query)


@router.post("/v1/unblock", response_model=b.PositionAnswer, responses=refusals())
async def unblock(body: b.BlockBody, request: Request) -> Response:
    """Take a block back."""
    return await _position(request.app.state.engine.unblock, body.query)


@router.post("/v1/switch", response_model=b.PositionAnswer, responses=refusals())
async def switch(body: b.SwitchBody, request: Request) -> Response:
    """The kill switch: off, every answer is empty (and still recorded)."""
    return await _position(request.app.state.engine.switch, body.on)


async def _position(do: Any, argument: Any) -> Response:
    return JSONResponse({"position": await run_in_threadpool(do, argument)})


@router.get("/v1/stats", responses=refusals(body=False) | _STATS)
async def stats(
    request: Request,
    by: Annotated[Literal["hour", "day"], Query(description="Width of the times.")] = "hour",
) -> dict[str, Any]:
    """Acceptance, per-round regret and coverage, by policy and time."""
    said: dict[str, Any] = await run_in_threadpool(request.app.state.engine.stats, by=by)
    return said


@router.get("/healthz", response_model=b.Health)
async def healthz() -> Response:
    """Whether the process runs."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=b.Health, responses=_NOT_READY)
async def readyz(request: Request) -> Response:
    """Whether requests can be answered: by the store, by the model, and by all shards if needed."""
    health = await run_in_threadpool(request.app.state.engine.health)
    away, whole = health["away"], not request.app.state.partial
    troubles = {
        "the store does not take events": not health["store_ok"],
        "the model stands still": not health["learning"],
        f"{len(away)} of {health['shards']} shards are away": bool(away) and whole,
    }
    words = "; ".join(said for said, true in troubles.items() if true)
    shards = {"shards": health["shards"], "away": away} if health["shards"] else {}
    return JSONResponse({"status": words or "ok", **shards}, status_code=503 if words else 200)


@router.get("/metrics", response_class=Response, responses=_SCRAPED)
async def metrics(request: Request) -> Response:
    """Numbers for Prometheus."""
    text = await run_in_threadpool(request.app.state.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
