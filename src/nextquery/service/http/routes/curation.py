"""Routes for operators: imported queries, and pins."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.http import bodies, page_bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.routes.control import maker_of, position_of
from nextquery.service.http.served import served

router = APIRouter()


@router.post("/v1/curated", response_model=bodies.CuratedAnswer, responses=documented_errors(409))
async def curate(body: bodies.CuratedBody, request: Request) -> Response:
    """Import queries that may be suggested although nobody asked them, with the next answer."""
    here, by = served(request), maker_of(request)
    added = await here.calls(lambda: here.engine.curate(body.queries, by, segment=body.segment))
    return JSONResponse({"added": added})


@router.get(
    "/v1/pins", response_model=page_bodies.PinsAnswer, responses=documented_errors(body=False)
)
async def pins(request: Request) -> Response:
    """Return what is pinned, and after which query."""
    return JSONResponse({"pins": await served(request).calls(served(request).engine.pins)})


@router.post("/v1/pins", response_model=bodies.PositionAnswer, responses=documented_errors())
async def pin(body: bodies.PinBody, request: Request) -> Response:
    """Always show a query at the top, after another query or after every one."""
    return await position_of(
        request, lambda engine, by: engine.pin(body.query, body.after, by, segment=body.segment)
    )


@router.post("/v1/pins/remove", response_model=bodies.PositionAnswer, responses=documented_errors())
async def unpin(body: bodies.PinBody, request: Request) -> Response:
    """Remove a pin."""
    return await position_of(
        request, lambda engine, by: engine.unpin(body.query, body.after, by, segment=body.segment)
    )
