"""GET /v1/experiment: the policies that share the sessions, and what is known of them."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.http.error_responses import Responses, documented_errors
from nextquery.service.http.served import served

router = APIRouter()
_EXAMPLE = {
    "position": 31200,
    "policies": [
        {
            "policy": "lin-ucb-memory",
            "share": 0.95,
            "sessions": 1900,
            "hits": 760,
            "hits_per_session": 0.4,
            "fell_back": None,
        }
    ],
    "differences": [
        {
            "policy": "lin-ucb-memory",
            "other": "most-similar-first",
            "sessions": 2000,
            "difference": 0.1,
            "low": 0.01,
            "high": 0.19,
            "p_value": 0.03,
        }
    ],
    "watch": [
        {
            "policy": "lin-ucb-memory",
            "control": "most-similar-first",
            "sessions": 2000,
            "difference": 0.1,
            "p_value": 1.0,
            "alpha": 0.05,
        }
    ],
    "interleaving": None,
    "rolled_back": [],
    "computing": False,
}
_EXPERIMENT: Responses = {200: {"content": {"application/json": {"example": _EXAMPLE}}}}


@router.get("/v1/experiment", responses=documented_errors(body=False) | _EXPERIMENT)
async def experiment(request: Request) -> Response:
    """Return hits per session of each policy, their differences with intervals, and the watch."""
    here = served(request)
    return JSONResponse(await here.calls(here.engine.experiment))
