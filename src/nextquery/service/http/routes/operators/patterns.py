"""Routes for operators: the patterns of queries that are never shown."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.http import bodies, page_bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.routes.control import position_of
from nextquery.service.http.served import served

router = APIRouter()


@router.get(
    "/v1/patterns",
    response_model=page_bodies.PatternsAnswer,
    responses=documented_errors(body=False),
)
async def patterns(request: Request) -> Response:
    """Return the blocked patterns, each with the number of arms that it hides."""
    engine = served(request).engine
    found = await served(request).calls(engine.patterns)
    return JSONResponse({"patterns": [{"pattern": text, "arms": arms} for text, arms in found]})


@router.post("/v1/patterns", response_model=bodies.PositionAnswer, responses=documented_errors())
async def block_pattern(body: bodies.PatternBody, request: Request) -> Response:
    """Stop recommending what this pattern matches, from the next answer of every worker."""
    return await position_of(request, lambda engine, by: engine.block_pattern(body.pattern, by))


@router.post(
    "/v1/patterns/remove", response_model=bodies.PositionAnswer, responses=documented_errors()
)
async def allow_pattern(body: bodies.PatternBody, request: Request) -> Response:
    """Allow again what a blocked pattern matches."""
    return await position_of(request, lambda engine, by: engine.allow_pattern(body.pattern, by))
