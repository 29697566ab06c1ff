"""Routes for operators: new arms, listed and reviewed, and the removal of any arm."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from nextquery.segments import segment_of, text_of
from nextquery.service.exchange.export import iso
from nextquery.service.http import bodies, page_bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.routes.control import position_of
from nextquery.service.http.served import served
from nextquery.service.log.operators import ArmText

router = APIRouter()


@router.get(
    "/v1/arms", response_model=page_bodies.ArmsAnswer, responses=documented_errors(body=False)
)
async def arms(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 100,
) -> Response:
    """Return the queries that are held for review, then new, rejected and removed arms."""
    engine = served(request).engine

    def read() -> dict[str, object]:
        texts, held = engine.arm_texts(limit)
        return {"arms": [_as_json(text) for text in texts], "held": held}

    return JSONResponse(await served(request).calls(read))


@router.post(
    "/v1/arms/approve", response_model=bodies.PositionAnswer, responses=documented_errors(409)
)
async def approve(body: bodies.ArmBody, request: Request) -> Response:
    """Make an arm of a query that is held for review."""
    return await position_of(
        request, lambda engine, by: engine.approve(body.query, by, segment=body.segment)
    )


@router.post(
    "/v1/arms/reject", response_model=bodies.PositionAnswer, responses=documented_errors(409)
)
async def reject(body: bodies.ArmBody, request: Request) -> Response:
    """Refuse a query that is held for review. It never becomes an arm."""
    return await position_of(
        request, lambda engine, by: engine.reject(body.query, by, segment=body.segment)
    )


@router.post("/v1/arms/remove", response_model=bodies.PositionAnswer, responses=documented_errors())
async def remove(body: bodies.ArmBody, request: Request) -> Response:
    """Remove an arm, new or original, for good. Its query never becomes an arm again."""
    return await position_of(
        request, lambda engine, by: engine.remove(body.query, by, segment=body.segment)
    )


def _as_json(text: ArmText) -> dict[str, object]:
    return {
        "text": text_of(text.shown),
        "segment": segment_of(text.shown),
        "state": text.state,
        "arm_id": text.arm,
        "owner": text.owner,
        "time": iso(text.time),
    }
