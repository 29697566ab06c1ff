"""The routes that let people look: queries to start from, the map, simulated users."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from nextquery.service.answer.example_queries import starters
from nextquery.service.answer.session_map import draw
from nextquery.service.answer.simulation import as_lines
from nextquery.service.http import page_bodies as p
from nextquery.service.http.documented_errors import Responses, refusals
from nextquery.service.http.routes.recommend import partial, soon

router = APIRouter()
_LINES = "application/x-ndjson"
_ROW = (
    '{"simulated": true, "round": 1, "user": 1, "ours": false, "most_similar": true, '
    '"reachable": true}\n'
)
_ROUNDS: Responses = {200: {"content": {_LINES: {"example": _ROW}}}}


@router.get("/v1/examples", response_model=p.ExamplesAnswer, responses=refusals(body=False))
async def examples(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=50, description="How many.")] = 6,
) -> Response:
    """Well-known queries of the pool, each about something else."""
    engine = request.app.state.engine

    def look() -> dict[str, Any]:
        with engine.learner.lock:
            found = starters(engine.catalogue, limit)
            return {"examples": found, "arms": len(engine.catalogue.pool)}

    return JSONResponse(await run_in_threadpool(look))


@router.post("/v1/map", response_model=p.MapAnswer, responses=refusals())
async def map_of(body: p.MapBody, request: Request) -> Response:
    """The candidates of a query and the session's trail in two dimensions; records nothing."""
    engine = request.app.state.engine
    sketch = await soon(engine.submit_map(**body.model_dump()), request)
    rows, shown = engine.catalogue.pool.rows, engine.catalogue.shown
    drawn = await run_in_threadpool(draw, sketch, rows, shown)
    return JSONResponse({**drawn, **partial(sketch.considered.selected.missing, request)})


@router.post("/v1/simulate", response_class=StreamingResponse, responses=refusals(409) | _ROUNDS)
async def simulate(body: p.SimulateBody, request: Request) -> Response:
    """Replay sessions of the log before a model of their own; one line a round, as it is played."""
    stage = request.app.state.stage
    rows = await run_in_threadpool(lambda: stage.begin(users=body.users, seed=body.seed))
    return StreamingResponse(as_lines(rows), media_type=_LINES)
