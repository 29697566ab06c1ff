"""POST /v1/explore: the next rows of a table to label, and the WHERE clause so far."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, model_validator
from starlette.responses import JSONResponse, Response

from nextquery.service.engine.explore import MOST_LABELS
from nextquery.service.http.bodies import example
from nextquery.service.http.error_responses import documented_errors, problem
from nextquery.service.http.served import served

router = APIRouter()
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
    def _go_together(self) -> "ExploreBody":
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
    here = served(request)
    table = here.table
    if table is None:
        return problem(404, _NO_TABLE, request_id=request.state.request_id)
    labels = {**dict.fromkeys(body.relevant, True), **dict.fromkeys(body.irrelevant, False)}
    learnt = await here.in_lane(
        lambda: table.learn(labels, seed=body.seed, samples=body.samples, checksum=body.table)
    )
    return JSONResponse(await here.in_lane(lambda: table.round(learnt)))
