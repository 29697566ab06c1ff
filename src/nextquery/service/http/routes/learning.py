"""GET /v1/stats: what the page shows under Learning."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.http.error_responses import Responses, documented_errors
from nextquery.service.http.served import served

router = APIRouter()
_COUNTS = {"rounds": 1200, "answered": 1180, "accepted": 402, "failed": 700, "acceptance": 0.365}
_EXAMPLE = {
    "position": 3120,
    "totals": _COUNTS,
    "not_teaching": 12,
    "coverage": {"arms": 35896, "arms_shown": 2104, "share_of_arms_shown": 0.0586},
    "by": "hour",
    "rows": [{"policy": "lin-ucb-memory", "from": "2026-11-15T10:00:00Z", **_COUNTS}],
}
_STATS: Responses = {200: {"content": {"application/json": {"example": _EXAMPLE}}}}


@router.get("/v1/stats", responses=documented_errors(body=False) | _STATS)
async def stats(
    request: Request,
    by: Annotated[Literal["hour", "day"], Query(description="Width of a row in time.")] = "hour",
) -> Response:
    """Return acceptance, per-round regret and coverage, by policy and time."""
    here = served(request)
    return JSONResponse(await here.calls(lambda: here.engine.stats(by=by)))
