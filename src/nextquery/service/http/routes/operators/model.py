"""Routes for operators: roll the model back and forward, and end a fallback."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.http import bodies, page_bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.routes.control import position_of
from nextquery.service.log.events import By

router = APIRouter()


@router.post(
    "/v1/model/roll-back", response_model=bodies.PositionAnswer, responses=documented_errors()
)
async def roll_back(body: page_bodies.RollBackBody, request: Request) -> Response:
    """Make the model what it was at a position, or end the newest roll-back.

    Every worker computes it from the log in the background; `computing` of `GET /v1/experiment`
    says whether the worker that answers still does.
    """

    def change(engine: Engine, by: By) -> int:
        if (body.to is None) != body.forward:
            raise InvalidInput("pass a position as to, or forward: true; one of the two.")
        return engine.forward(by) if body.to is None else engine.roll_back(body.to, by)

    return await position_of(request, change)


@router.post(
    "/v1/model/end-fallback", response_model=bodies.PositionAnswer, responses=documented_errors()
)
async def end_fallback(body: page_bodies.EndFallbackBody, request: Request) -> Response:
    """Let a policy that fell back answer again, or all of them; the watch begins anew."""
    return await position_of(request, lambda engine, by: engine.end_fallback(by, body.policy))
