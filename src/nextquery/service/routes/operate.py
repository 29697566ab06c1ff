"""Routes for operators and monitoring: controls, reviews, personal data, health and metrics.

- Block and unblock queries and patterns, and use the kill switch.
- List and review new arms, remove any arm, import queries, and set pins.
- Roll the model back and forward, end a fallback, and show who changed what.
- Show and erase the data of a user or a session.
- Show health, liveness, readiness, the newest decisions, and export the log.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict
from typing import Annotated, Any, BinaryIO, Literal, cast

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from nextquery.errors import InvalidInput, StoreUnavailable
from nextquery.segments import segment_of, text_of
from nextquery.service.engine.engine import Engine
from nextquery.service.erasure.person import anything
from nextquery.service.erasure.rights import DataSubject
from nextquery.service.exchange.export import FORMATS, export_pages, iso
from nextquery.service.http import bodies
from nextquery.service.http.bodies import example
from nextquery.service.http.responses import (
    LaneResponse,
    Responses,
    context_of,
    documented_errors,
    problem,
)
from nextquery.service.log.events import By
from nextquery.service.log.operators import ArmText, as_json, changes
from nextquery.service.log.schema import LONGEST_ID
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
    here = context_of(request)

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
    response_model=bodies.DecisionsAnswer,
    responses=documented_errors(body=False),
)
async def decisions(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=200, description="How many.")] = 30,
) -> Response:
    """Return the newest decisions and their outcomes."""
    here = context_of(request)
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
    engine = context_of(request).engine
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
    here, by = context_of(request), maker_of(request)
    return JSONResponse({"position": await here.calls(lambda: change(here.engine, by))})


@router.post(
    "/v1/model/roll-back", response_model=bodies.PositionAnswer, responses=documented_errors()
)
async def roll_back(body: bodies.RollBackBody, request: Request) -> Response:
    """Make the model what it was at a position, or end the newest roll-back.

    Every worker computes it from the log in the background; `computing` of `GET /v1/experiment`
    says whether the worker that answers still does.
    """

    def change(engine: Engine, by: By) -> int:
        if (body.to is None) != body.forward:
            raise InvalidInput("pass a position as to, or forward: true; one of the two.")
        return engine.forward(by) if body.to is None else engine.roll_back(body.to, by)

    return await position_of(request, change)


@router.post(
    "/v1/model/end-fallback", response_model=bodies.PositionAnswer, responses=documented_errors()
)
async def end_fallback(body: bodies.EndFallbackBody, request: Request) -> Response:
    """Let a policy that fell back answer again, or all of them; the watch begins anew."""
    return await position_of(request, lambda engine, by: engine.end_fallback(by, body.policy))


@router.get(
    "/v1/patterns",
    response_model=bodies.PatternsAnswer,
    responses=documented_errors(body=False),
)
async def patterns(request: Request) -> Response:
    """Return the blocked patterns, each with the number of arms that it hides."""
    engine = context_of(request).engine
    found = await context_of(request).calls(engine.patterns)
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


@router.post("/v1/curated", response_model=bodies.CuratedAnswer, responses=documented_errors(409))
async def curate(body: bodies.CuratedBody, request: Request) -> Response:
    """Import queries that may be suggested although nobody asked them, with the next answer."""
    here, by = context_of(request), maker_of(request)
    added = await here.calls(lambda: here.engine.curate(body.queries, by, segment=body.segment))
    return JSONResponse({"added": added})


@router.get("/v1/pins", response_model=bodies.PinsAnswer, responses=documented_errors(body=False))
async def pins(request: Request) -> Response:
    """Return what is pinned, and after which query."""
    return JSONResponse({"pins": await context_of(request).calls(context_of(request).engine.pins)})


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


@router.get("/v1/arms", response_model=bodies.ArmsAnswer, responses=documented_errors(body=False))
async def arms(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 100,
) -> Response:
    """Return the queries that are held for review, then new, rejected and removed arms."""
    engine = context_of(request).engine

    def read() -> dict[str, object]:
        texts, held = engine.arm_texts(limit)
        return {"arms": [_as_json(text) for text in texts], "held": held}

    return JSONResponse(await context_of(request).calls(read))


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


Id = Annotated[str, Path(min_length=1, max_length=LONGEST_ID, description="The id as it was sent.")]
Owner = Annotated[
    str | None,
    Query(max_length=256, description="Only those of this owner of keys; by default of all."),
]


class KnownAnswer(BaseModel):
    """Everything that the log and the pool know of a user or a session."""

    model_config = example(
        sessions=[{"owner": "shop", "session_id": "s-17"}],
        decisions=[
            {
                "position": 812,
                "decision_id": "d-5f0c2b9e7a41",
                "time": "2026-03-01T12:00:00.000Z",
                "owner": "shop",
                "session_id": "s-17",
                "user_hash": "5f1b…",
                "person": None,
                "state": "accepted",
                "accepted": 120,
                "events": [],
            }
        ],
        typed=[],
        ids_in_their_sessions=2,
        left_out=[],
    )

    sessions: list[dict[str, Any]] = Field(description="Their sessions, each with its owner.")
    decisions: list[dict[str, Any]] = Field(
        description="Every decision of these sessions, with all events that followed from it."
    )
    typed: list[dict[str, Any]] = Field(
        description="When they first typed queries that were no arms; the text if it became one."
    )
    ids_in_their_sessions: int = Field(
        description="Users and sessions that count as one person with them, themselves included."
    )
    left_out: list[int] = Field(description="Positions of leave-outs that name them.")
    pool_sessions: list[dict[str, Any]] | None = Field(
        None, description="Their sessions in the pool, if it knows people."
    )


class ForgottenAnswer(BaseModel):
    """What was erased."""

    model_config = example(
        decisions=12, events=31, arms=1, pool_sessions=0, position=3121, clean=True
    )

    decisions: int = Field(description="Decisions that were erased.")
    events: int = Field(description="Events that are tombstones now.")
    arms: int = Field(description="Arms that ended: too few other users had typed them.")
    pool_sessions: int = Field(description="Sessions that left the pool.")
    position: int = Field(description="Position of the event of the erasure.")
    clean: bool = Field(
        description="Whether the files of the store are clean too. If not, run nextquery forget "
        "--clean when other requests may wait."
    )


@router.get(
    "/v1/users/{id:path}",
    response_model=KnownAnswer,
    responses=documented_errors(404, body=False),
)
async def user_data(request: Request, id: Id, owner: Owner = None) -> Response:
    """Return everything that is known of a user, with all that happened in their sessions."""
    return await _known(request, DataSubject(user_id=id, owner=owner))


@router.get(
    "/v1/sessions/{id:path}",
    response_model=KnownAnswer,
    responses=documented_errors(404, body=False),
)
async def session_data(request: Request, id: Id, owner: Owner = None) -> Response:
    """Return everything that is known of a session."""
    return await _known(request, DataSubject(session_id=id, owner=owner))


@router.delete(
    "/v1/users/{id:path}",
    response_model=ForgottenAnswer,
    responses=documented_errors(404, body=False),
)
async def forget_user(request: Request, id: Id, owner: Owner = None) -> Response:
    """Forget a user: erase their sessions, and all that names them. Repeat it if it times out."""
    return await _forgotten(request, DataSubject(user_id=id, owner=owner))


@router.delete(
    "/v1/sessions/{id:path}",
    response_model=ForgottenAnswer,
    responses=documented_errors(404, body=False),
)
async def forget_session(request: Request, id: Id, owner: Owner = None) -> Response:
    """Forget a session: erase its decisions, and all that names it."""
    return await _forgotten(request, DataSubject(session_id=id, owner=owner))


async def _known(request: Request, person: DataSubject) -> Response:
    here = context_of(request)
    known = await here.calls(lambda: here.engine.known_of(person))
    return JSONResponse(known) if anything(known) else _unknown_person(request)


async def _forgotten(request: Request, person: DataSubject) -> Response:
    here, by = context_of(request), maker_of(request)
    erased, clean = await here.calls(lambda: here.engine.forget(person, by))
    if not erased.anything:
        return _unknown_person(request)
    return JSONResponse(
        {
            "decisions": erased.log.decisions,
            "events": erased.log.events,
            "arms": erased.log.arms + len(erased.pool.arms),
            "pool_sessions": erased.pool.sessions,
            "position": erased.log.position,
            "clean": clean,
        }
    )


def _unknown_person(request: Request) -> Response:
    return problem(
        404,
        "nothing is known of this id, so nothing was erased. Check the id and the owner, or read "
        "it as done if you asked before.",
        request_id=request.state.request_id,
    )


@router.get("/v1/audit", response_model=bodies.AuditAnswer, responses=documented_errors(body=False))
async def audit(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 100,
    since: Annotated[float, Query(ge=0, description="Unix time; older ones are left out.")] = 0.0,
) -> Response:
    """Return what operators changed, newest first: when, what, and who did it."""
    store = context_of(request).engine.store
    found = await context_of(request).calls(lambda: changes(store, since=since, limit=limit))
    return JSONResponse({"changes": [as_json(change) for change in found]})


_METRICS: Responses = {200: {"content": {"text/plain": {"example": "nextquery_position 3120.0"}}}}
_NOT_READY: Responses = {503: {"model": bodies.Health, "description": "Not ready."}}


@router.get("/healthz", response_model=bodies.Health)
async def healthz() -> Response:
    """Check that the process runs."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=bodies.Health, responses=_NOT_READY)
async def readyz(request: Request) -> Response:
    """Check that requests can be answered: by the store, the model and all shards it needs."""
    here = context_of(request)
    try:
        health = await here.calls(here.engine.health)
    except StoreUnavailable:
        return JSONResponse({"status": "the store does not answer"}, status_code=503)
    failures = {
        "the store is unavailable": not health.store_ok,
        "the model cannot read the log": not health.learning,
        f"{len(health.away)} of {health.shards} shards are unavailable": bool(health.away)
        and not here.allows_partial,
    }
    status = "; ".join(failure for failure, true in failures.items() if true)
    shards = {"shards": health.shards, "away": health.away} if health.shards else {}
    return JSONResponse({"status": status or "ok", **shards}, status_code=503 if status else 200)


@router.get("/metrics", response_class=Response, responses=_METRICS)
async def metrics(request: Request) -> Response:
    """Return metrics for Prometheus."""
    here = context_of(request)
    text = await here.calls(here.metrics.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
