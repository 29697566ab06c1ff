"""The routes that an operator's page reads: how it runs, what was decided, and all of the log."""

from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from nextquery.service.http import page_bodies as p
from nextquery.service.http.documented_errors import Responses, refusals
from nextquery.service.log.export import iso, ubi_lines, write_parquet
from nextquery.service.log.store import Store, StoredDecision

router = APIRouter()
_MOST_BLOCKED = 200  # blocked queries that are listed
_PIECE = 1 << 16
_NOW = {
    "position": 3120,
    "lag": 0,
    "store_ok": True,
    "learning": True,
    "on": True,
    "policy": "lin-ucb-memory",
    "arms": 35896,
    "store_bytes": 4_194_304,
    "blocked_queries": ["a query nobody should be shown"],
    "requests": 2400,
    "errors": 0,
    "slates": 1200,
    "fallback_share": 0.0,
    "routes": [
        {
            "route": "/v1/recommend",
            "requests": 1200,
            "errors": 0,
            "p50_ms": 6.1,
            "p95_ms": 11.8,
            "p99_ms": 19.0,
        }
    ],
}
_OPERATE: Responses = {200: {"content": {"application/json": {"example": _NOW}}}}
_EXPORT: Responses = {
    200: {
        "content": {
            "application/x-ndjson": {"example": '{"application": "nextquery"}\n'},
            "application/vnd.apache.parquet": {"example": "PAR1"},
        }
    }
}


@router.get("/v1/operate", responses=refusals(body=False) | _OPERATE)
async def operate(request: Request) -> dict[str, Any]:
    """How the service runs: latency, requests, fallbacks, log, learner, store, blocks."""
    state = request.app.state

    def look() -> dict[str, Any]:
        engine = state.engine
        with engine.learner.lock:
            blocked = sorted(engine.learner.state.blocked)[:_MOST_BLOCKED]
        return {
            **engine.health(),
            "store_bytes": engine.store.size(),
            "blocked_queries": blocked,
            **state.metrics.summary(),
        }

    return await run_in_threadpool(look)


@router.get("/v1/decisions", response_model=p.DecisionsAnswer, responses=refusals(body=False))
async def decisions(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200, description="How many.")] = 30,
) -> Response:
    """The newest decisions with what has become of them."""
    found = await run_in_threadpool(request.app.state.engine.store.newest, limit)
    return JSONResponse({"decisions": [_outcome(one) for one in found]})


@router.get(
    "/v1/export", response_class=StreamingResponse, responses=refusals(body=False) | _EXPORT
)
async def export(
    request: Request,
    format: Annotated[Literal["ubi", "parquet"], Query(description="Of the file.")] = "ubi",
) -> Response:
    """The whole log as a file: UBI records as JSON Lines, or Parquet with a row per entry."""
    store: Store = request.app.state.engine.store
    name = {"ubi": "nextquery.ubi.jsonl", "parquet": "nextquery.parquet"}[format]
    kind = list(_EXPORT[200]["content"])[format == "parquet"]
    pieces = ubi_lines(store) if format == "ubi" else _parquet(store)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(pieces, media_type=kind, headers=headers)


def _parquet(store: Store) -> Iterator[bytes]:
    with TemporaryFile() as file:
        write_parquet(store, file)
        file.seek(0)
        while piece := file.read(_PIECE):
            yield piece


def _outcome(decision: StoredDecision) -> dict[str, Any]:
    body = decision.body
    taken = (entry["text"] for entry in body["slate"] if entry["arm"] == decision.accepted)
    return {
        "decision_id": decision.id,
        "time": iso(decision.time),
        "session_id": decision.session_id,
        "query": body["query"],
        "shown": [entry["text"] for entry in body["slate"]],
        "state": decision.state,
        "accepted": next(taken, None),
        "policy": body["policy"],
        "fallback": body["fallback"],
        "model_version": body["model_version"],
    }
