"""Routes of the page: its files, examples, the map, simulations, statistics, experiments.

The files of the page are read once; no other file of the disk can be requested.
``POST /v1/explore`` returns the next rows of a table to label, and the WHERE clause so far.
``GET /v1/experiment`` returns the policies that share the sessions, and their results.
``GET /v1/stats`` returns the statistics shown under Learning.
"""

from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, model_validator
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse

from nextquery.datasets import arms_are
from nextquery.segments import LONGEST_SEGMENT, check_segment
from nextquery.service.engine.explore import MOST_LABELS
from nextquery.service.engine.page_work import draw
from nextquery.service.http import bodies
from nextquery.service.http.bodies import example
from nextquery.service.http.documentation import only_live_links
from nextquery.service.http.responses import (
    LaneResponse,
    Responses,
    context_of,
    documented_errors,
    problem,
)

router = APIRouter()
_LINES = "application/x-ndjson"
_ROW = (
    '{"simulated": true, "round": 1, "user": 1, "ours": false, "most_similar": true, '
    '"best_possible": 0.31}\n'
)
_ROUNDS: Responses = {200: {"content": {_LINES: {"example": _ROW}}}}


@router.get(
    "/v1/examples",
    response_model=bodies.ExamplesAnswer,
    responses=documented_errors(body=False),
)
async def examples(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=50, description="How many.")] = 6,
    segment: Annotated[str, Query(max_length=LONGEST_SEGMENT, description="Of this segment.")] = "",
) -> Response:
    """Return common queries of a segment, each about something else."""
    engine = context_of(request).engine
    name = check_segment(segment)
    found = await context_of(request).calls(lambda: engine.examples(limit, name))
    catalogue = engine.catalogue
    pool, here = catalogue.pool, catalogue.segmented.of(name)
    words = arms_are(None) if pool.origin is None else pool.origin.arms_are
    arms = 0 if here is None else len(here)
    return JSONResponse({"examples": found, "arms": arms, "arms_are": words})


@router.post("/v1/map", response_model=bodies.MapAnswer, responses=documented_errors())
async def map_of(body: bodies.MapBody, request: Request) -> Response:
    """Place the candidates and the earlier queries in two dimensions. Records nothing."""
    here = context_of(request)
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
async def simulate(body: bodies.SimulateBody, request: Request) -> Response:
    """Let simulated people use a service of their own; streams one line per round."""
    here = context_of(request)
    rounds = await here.in_lane(lambda: here.simulator.start(users=body.users, seed=body.seed))
    return LaneResponse(here.engine.lane, rounds.lines(), ended=rounds.close, media_type=_LINES)


_NO_TABLE = "no table is served. Start the service with nextquery serve POOL --explore TABLE."
Row = Annotated[int, Field(strict=True, ge=0, lt=2**53)]


class ExploreBody(BaseModel):
    """All labels so far. Records nothing."""

    model_config = example(relevant=[17, 204], irrelevant=[3, 950, 1201], seed=0, samples=10)

    relevant: list[Row] = Field(
        default_factory=list,
        max_length=MOST_LABELS,
        description=f"Rows that are relevant; with the others, at most {MOST_LABELS}.",
    )
    irrelevant: list[Row] = Field(
        default_factory=list, max_length=MOST_LABELS, description="Rows that are not."
    )
    seed: int = Field(0, strict=True, ge=0, lt=2**32, description="Seed of every draw.")
    samples: int = Field(10, strict=True, ge=1, le=50, description="How many rows to label next.")
    table: str | None = Field(
        None,
        max_length=64,
        description="The table of the last answer; if it has changed since, the request fails "
        "with 409.",
    )

    @model_validator(mode="after")
    def _check_labels(self) -> "ExploreBody":
        both = set(self.relevant) & set(self.irrelevant)
        if both:
            raise ValueError(f"row {min(both)} is in both lists; put it in one of them")
        labels = len(self.relevant) + len(self.irrelevant)
        if labels > MOST_LABELS:
            raise ValueError(
                f"{labels} labels are too many; send at most {MOST_LABELS}, or use nextquery "
                "explore, which has no limit"
            )
        return self


class NextRow(BaseModel):
    """A row to label."""

    row: int = Field(description="Its number in the table, from 0.")
    phase: str = Field(description="Why it was chosen: discovery, misclassified or boundary.")
    values: list[str | int | float | bool | None] = Field(description="One per column.")


class ExploreAnswer(BaseModel):
    """The clause that the labels teach, and the rows to label next."""

    model_config = example(
        name="homes.csv",
        table="9f2c41",
        rows=100000,
        columns=["price", "city"],
        left_out={},
        labels=5,
        relevant=2,
        where='"price" > 240000',
        sql="SELECT *\n FROM read_csv('homes.csv')\nWHERE \"price\" > 240000;",
        selected=312,
        next=[{"row": 88, "phase": "boundary", "values": [251000, "Gent"]}],
    )

    name: str = Field(description="Of the file.")
    table: str = Field(description="A checksum, to send with the labels.")
    rows: int = Field(description="Number of rows of the table.")
    columns: list[str]
    left_out: dict[str, str] = Field(description="Columns without conditions, and why.")
    labels: int
    relevant: int
    where: str = Field(description="FALSE while no row is relevant.")
    sql: str = Field(description="The whole query, for DuckDB in the folder of the file.")
    selected: int = Field(description="Number of rows that the clause selects.")
    next: list[NextRow] = Field(description="Empty when every row is labelled.")


@router.post("/v1/explore", response_model=ExploreAnswer, responses=documented_errors(404, 409))
async def explore(body: ExploreBody, request: Request) -> Response:
    """Learn from labels, and return the clause and the next rows. Records nothing."""
    here = context_of(request)
    table = here.table
    if table is None:
        return problem(404, _NO_TABLE, request_id=request.state.request_id)
    labels = {**dict.fromkeys(body.relevant, True), **dict.fromkeys(body.irrelevant, False)}
    exploration = await here.in_lane(
        lambda: table.learn(labels, seed=body.seed, samples=body.samples, checksum=body.table)
    )
    return JSONResponse(await here.in_lane(lambda: table.round(exploration)))


_COUNTS = {"rounds": 1200, "answered": 1180, "accepted": 402, "failed": 700, "acceptance": 0.365}
_LEARNING_EXAMPLE = {
    "position": 3120,
    "totals": _COUNTS,
    "not_teaching": 12,
    "coverage": {"arms": 35896, "arms_shown": 2104, "share_of_arms_shown": 0.0586},
    "by": "hour",
    "rows": [{"policy": "lin-ucb-memory", "from": "2026-11-15T10:00:00Z", **_COUNTS}],
}
_STATS: Responses = {200: {"content": {"application/json": {"example": _LEARNING_EXAMPLE}}}}


@router.get("/v1/stats", responses=documented_errors(body=False) | _STATS)
async def stats(
    request: Request,
    by: Annotated[Literal["hour", "day"], Query(description="Width of a row in time.")] = "hour",
) -> Response:
    """Return acceptance, per-round regret and coverage, by policy and time."""
    here = context_of(request)
    return JSONResponse(await here.calls(lambda: here.engine.stats(by=by)))


_EXPERIMENT_EXAMPLE = {
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
_EXPERIMENT: Responses = {200: {"content": {"application/json": {"example": _EXPERIMENT_EXAMPLE}}}}


@router.get("/v1/experiment", responses=documented_errors(body=False) | _EXPERIMENT)
async def experiment(request: Request) -> Response:
    """Return hits per session of each policy, their differences with intervals, and the watch."""
    here = context_of(request)
    return JSONResponse(await here.calls(here.engine.experiment))


TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
EXAMPLES = '    <a href="#examples" data-view="examples">Examples</a>\n'
page_router = APIRouter(include_in_schema=False)


@cache
def page_files() -> dict[str, bytes]:
    """Return every file of the page by name."""
    folder = files("nextquery.service").joinpath("page")
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in TYPES
    }


@page_router.get("/")
async def index(request: Request) -> Response:
    """Return the page; without a table, without the room for it."""
    page = page_files()["index.html"].decode()
    if context_of(request).table is None:
        page = page.replace(EXAMPLES, "")
    return _answer("index.html", only_live_links(page).encode())


@page_router.get("/client.js")
async def javascript_client() -> Response:
    """Return the client for browsers."""
    return _response("client.js")


@page_router.get("/page/{file}")
async def part(file: str) -> Response:
    """Return a file of the page."""
    if file not in page_files():
        raise HTTPException(404)
    return _response(file)


def _response(name: str) -> Response:
    return _answer(name, page_files()[name])


def _answer(name: str, content: bytes) -> Response:
    kind = TYPES[name.rpartition(".")[2]]
    headers = {"Cache-Control": "no-cache"}  # the page always matches the service
    return Response(content, media_type=kind, headers=headers)
