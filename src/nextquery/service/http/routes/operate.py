"""Routes of the page under Operate: health, the newest decisions, the export of the log."""

from collections.abc import Generator, Iterable
from dataclasses import asdict
from typing import Annotated, BinaryIO, Literal, cast

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from nextquery.service.engine.engine import Engine
from nextquery.service.exchange.export import FORMATS, export_pages, iso
from nextquery.service.http import page_bodies
from nextquery.service.http.error_responses import Responses, documented_errors
from nextquery.service.http.lane_response import LaneResponse
from nextquery.service.http.served import served
from nextquery.service.log.store import StoredDecision

router = APIRouter()
_MOST_BLOCKED = 200  # blocked queries in the answer
_NOW = {
    "position": 3120,
    "lag": 0,
    "store_ok": True,
    "learning": True,
    "on": True,
    "fallen_back": False,
    "rolled_back": False,
    "computing": False,
    "policy": "lin-ucb-memory",
    "arms": 35896,
    "held": 0,
    "capped": 0,
    "pool": "3f9a1c55d0b2",
    "pool_current": True,
    "pool_problem": "",
    "people": 120,
    "own_queries": 3400,
    "store_bytes": 4_194_304,
    "blocked_queries": ["a query to hide"],
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
_EXAMPLES = {"ubi": '{"application": "nextquery"}\n', "parquet": "PAR1", "obp": "PK"}
_EXPORT: Responses = {
    200: {
        "content": {
            FORMATS[name].media_type: {"example": example} for name, example in _EXAMPLES.items()
        }
    }
}


@router.get("/v1/operate", responses=documented_errors(body=False) | _OPERATE)
async def operate(request: Request) -> Response:
    """Return latency, requests, fallbacks, and the state of log, learner, store and blocks."""
    here = served(request)

    def read() -> dict[str, object]:
        engine = here.engine
        with engine.learner.lock:
            blocked = sorted(engine.learner.state.blocked)[:_MOST_BLOCKED]
            people, queries = engine.answerer.loop.memory.own_totals()
            own = {"people": people, "own_queries": queries}
        return {
            **asdict(engine.health()),
            "pool_problem": engine.follower.problem,  # names the store
            **own,  # here and not in the metrics, which keys below admin may read
            "store_bytes": engine.store.size(),
            "blocked_queries": blocked,
            **here.metrics.summary(),
        }

    return JSONResponse(await here.calls(read))


@router.get(
    "/v1/decisions",
    response_model=page_bodies.DecisionsAnswer,
    responses=documented_errors(body=False),
)
async def decisions(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200, description="How many.")] = 30,
) -> Response:
    """Return the newest decisions and their outcomes."""
    here = served(request)
    newest = await here.calls(lambda: here.engine.store.newest(limit))
    return JSONResponse({"decisions": [_outcome(decision) for decision in newest]})


@router.get(
    "/v1/export",
    response_class=StreamingResponse,
    responses=documented_errors(body=False) | _EXPORT,
)
async def export(
    request: Request,
    format: Annotated[
        Literal["ubi", "parquet", "obp", "vw", "gru4rec", "hred"], Query(description="File format.")
    ] = "ubi",
) -> Response:
    """Download the log in one of the formats of `nextquery export`."""
    engine = served(request).engine
    chosen = FORMATS[format]
    chunks = _chunks(format, engine)
    return LaneResponse(
        engine.lane,
        chunks,
        ended=chunks.close,
        media_type=chosen.media_type,
        headers={"Content-Disposition": f'attachment; filename="{chosen.file}"'},
    )


def _chunks(format: str, engine: Engine) -> Generator[bytes, None, None]:
    """Yield what each step of an export wrote; an empty chunk is a step that wrote nothing."""
    sink = _Written()
    for _ in export_pages(format, engine.store, cast(BinaryIO, sink), engine.catalogue):
        yield sink.take()
    yield sink.take()


class _Written:
    """Keeps what is written until it is taken; it cannot seek."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def writelines(self, lines: Iterable[bytes]) -> None:
        self._parts.extend(lines)

    def flush(self) -> None:
        """Everything is here already."""

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken, self._parts = b"".join(self._parts), []
        return taken


def _outcome(decision: StoredDecision) -> dict[str, object]:
    body = decision.body
    accepted = (entry.text for entry in body.slate if entry.arm == decision.accepted)
    return {
        "decision_id": decision.id,
        "time": iso(decision.time),
        "session_id": decision.session_id,
        "query": body.query,
        "shown": [entry.text for entry in body.slate],
        "state": decision.state,
        "accepted": next(accepted, None),
        "policy": body.policy,
        "fallback": body.fallback,
        "model_version": body.model_version,
    }
