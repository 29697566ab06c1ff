"""Routes for operators: what is known of a user or a session, and forgetting them."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from nextquery.service.erasure.person import anything
from nextquery.service.erasure.rights import Person
from nextquery.service.http.bodies import example
from nextquery.service.http.error_responses import documented_errors, problem
from nextquery.service.http.routes.control import maker_of
from nextquery.service.http.served import served
from nextquery.service.log.schema import LONGEST_ID

router = APIRouter()
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
    return await _known(request, Person(user_id=id, owner=owner))


@router.get(
    "/v1/sessions/{id:path}",
    response_model=KnownAnswer,
    responses=documented_errors(404, body=False),
)
async def session_data(request: Request, id: Id, owner: Owner = None) -> Response:
    """Return everything that is known of a session."""
    return await _known(request, Person(session_id=id, owner=owner))


@router.delete(
    "/v1/users/{id:path}",
    response_model=ForgottenAnswer,
    responses=documented_errors(404, body=False),
)
async def forget_user(request: Request, id: Id, owner: Owner = None) -> Response:
    """Forget a user: erase their sessions, and all that names them. Repeat it if it times out."""
    return await _forgotten(request, Person(user_id=id, owner=owner))


@router.delete(
    "/v1/sessions/{id:path}",
    response_model=ForgottenAnswer,
    responses=documented_errors(404, body=False),
)
async def forget_session(request: Request, id: Id, owner: Owner = None) -> Response:
    """Forget a session: erase its decisions, and all that names it."""
    return await _forgotten(request, Person(session_id=id, owner=owner))


async def _known(request: Request, person: Person) -> Response:
    here = served(request)
    known = await here.calls(lambda: here.engine.known_of(person))
    return JSONResponse(known) if anything(known) else _nobody(request)


async def _forgotten(request: Request, person: Person) -> Response:
    here, by = served(request), maker_of(request)
    erased, clean = await here.calls(lambda: here.engine.forget(person, by))
    if not erased.anything:
        return _nobody(request)
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


def _nobody(request: Request) -> Response:
    return problem(
        404,
        "nothing is known of this id, so nothing was erased. Check the id and the owner, or read "
        "it as done if you asked before.",
        request_id=request.state.request_id,
    )
