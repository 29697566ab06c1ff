"""Routes for operators: block and unblock queries, and the kill switch."""

from collections.abc import Callable

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.engine.engine import Engine
from nextquery.service.http import bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.served import served
from nextquery.service.log.events import By

router = APIRouter()


@router.post("/v1/block", response_model=bodies.PositionAnswer, responses=documented_errors())
async def block(body: bodies.BlockBody, request: Request) -> Response:
    """Stop recommending this query, from the next answer of every worker."""
    return await position_of(request, lambda engine, by: engine.block(body.query, by))


@router.post("/v1/unblock", response_model=bodies.PositionAnswer, responses=documented_errors())
async def unblock(body: bodies.BlockBody, request: Request) -> Response:
    """Remove a block."""
    return await position_of(request, lambda engine, by: engine.unblock(body.query, by))


@router.post("/v1/switch", response_model=bodies.PositionAnswer, responses=documented_errors())
async def switch(body: bodies.SwitchBody, request: Request) -> Response:
    """Set the kill switch. While it is off, every slate is empty (and still recorded)."""
    return await position_of(request, lambda engine, by: engine.switch(body.on, by))


def maker_of(request: Request) -> By:
    """Return who makes a change, for the log."""
    state = request.state
    return By("key", state.key_name, state.owner) if state.key else By("token")


async def position_of(request: Request, change: Callable[[Engine, By], int]) -> Response:
    """Make a change and answer with its position in the log, which names who made it."""
    here, by = served(request), maker_of(request)
    return JSONResponse({"position": await here.calls(lambda: change(here.engine, by))})
