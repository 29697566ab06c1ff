"""Routes of the page under Explore: example queries, the map, simulated people."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from nextquery.datasets import arms_are
from nextquery.segments import LONGEST_SEGMENT, check_segment
from nextquery.service.engine.page_work import draw
from nextquery.service.http import page_bodies
from nextquery.service.http.error_responses import Responses, documented_errors
from nextquery.service.http.lane_response import LaneResponse
from nextquery.service.http.served import served

router = APIRouter()
_LINES = "application/x-ndjson"
_ROW = (
    '{"simulated": true, "round": 1, "user": 1, "ours": false, "most_similar": true, '
    '"best_possible": 0.31}\n'
)
_ROUNDS: Responses = {200: {"content": {_LINES: {"example": _ROW}}}}


@router.get(
    "/v1/examples",
    response_model=page_bodies.ExamplesAnswer,
    responses=documented_errors(body=False),
)
async def examples(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=50, description="How many.")] = 6,
    segment: Annotated[str, Query(max_length=LONGEST_SEGMENT, description="Of this segment.")] = "",
) -> Response:
    """Return common queries of a segment, each about something else."""
    engine = served(request).engine
    name = check_segment(segment)
    found = await served(request).calls(lambda: engine.examples(limit, name))
    catalogue = engine.catalogue
    pool, here = catalogue.pool, catalogue.segmented.of(name)
    words = arms_are(None) if pool.origin is None else pool.origin.arms_are
    arms = 0 if here is None else len(here)
    return JSONResponse({"examples": found, "arms": arms, "arms_are": words})


@router.post("/v1/map", response_model=page_bodies.MapAnswer, responses=documented_errors())
async def map_of(body: page_bodies.MapBody, request: Request) -> Response:
    """Place the candidates and the earlier queries in two dimensions. Records nothing."""
    here = served(request)
    data = await here.answer(
        here.engine.submit_map(
            session_id=body.session_id,
            query=body.query,
            trail=body.trail,
            user_id=body.user_id,
            owner=request.state.owner,
            trusted=here.trusts(request, body),
            segment=body.segment,
        )
    )
    catalogue = data.catalogue  # the pool may be another by now
    drawn = await here.in_lane(lambda: draw(data, catalogue.pool.rows, catalogue.shown))
    return JSONResponse({**drawn, **here.partial(data.considered.selected.missing)})


@router.post(
    "/v1/simulate", response_class=StreamingResponse, responses=documented_errors(409) | _ROUNDS
)
async def simulate(body: page_bodies.SimulateBody, request: Request) -> Response:
    """Let simulated people use a service of their own; streams one line per round."""
    here = served(request)
    rounds = await here.in_lane(lambda: here.simulator.start(users=body.users, seed=body.seed))
    return LaneResponse(here.engine.lane, rounds.lines(), ended=rounds.close, media_type=_LINES)
