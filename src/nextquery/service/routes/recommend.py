"""Routes for applications: recommend, feedback, forecast, and UBI events.

``POST /v1/recommend`` returns the next queries, recorded before they are returned.
``POST /v1/feedback`` records the outcome of a slate, and ``POST /v1/forecast`` returns the most
probable next queries, for prefetching. ``POST /v1/ubi/events`` accepts queries and events that
search teams record already. Busy paths use a route class without the parts of FastAPI that they
do not need.
"""

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from nextquery.memory import Reason, reason_of, similar
from nextquery.policies.registry import has_memory
from nextquery.service.engine.requests import Decision
from nextquery.service.exchange.ubi_in import UbiAnswer, UbiBody, UbiImporter
from nextquery.service.http import bodies
from nextquery.service.http.responses import Responses, context_of, documented_errors
from nextquery.service.log.events import PINNED, SlateEntry


class DirectRoute(APIRoute):
    """A route whose function takes a body and the request, and returns a response.

    FastAPI documents it like any other, but its search for dependencies and its exit stacks, two
    thirds of the time that it takes for a small request, are left out. The checks and errors are
    the same.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; another method than this route's is an error of FastAPI's."""
        if scope["method"] not in (self.methods or ()):
            return await super().handle(scope, receive, send)
        assert self.body_field is not None
        kind: type[BaseModel] = self.body_field.field_info.annotation  # type: ignore[assignment]
        request = Request(scope, receive, send)
        received = _json_of(await request.body())
        try:
            body = kind.model_validate(received, from_attributes=True)
        except ValidationError as error:
            errors = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
            raise RequestValidationError(errors) from None
        response: Response = await self.endpoint(body, request)
        await response(scope, receive, send)


def _json_of(body: bytes) -> Any:
    if not body:
        missing = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
        raise RequestValidationError([missing])
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        wrong = {"type": "json_invalid", "loc": ("body", error.pos), "msg": error.msg, "input": {}}
        raise RequestValidationError([wrong]) from None
    except Exception:  # not UTF-8, or nested too deeply
        raise HTTPException(400, "There was an error parsing the body") from None


router = APIRouter(route_class=DirectRoute)


@router.post(
    "/v1/recommend", response_model=bodies.RecommendAnswer, responses=documented_errors(409)
)
async def recommend(body: bodies.RecommendBody, request: Request) -> Response:
    """Recommend the next queries. The decision is durable before it is returned."""
    here = context_of(request)
    trusted = here.trusts(request, body)
    future = here.engine.submit_recommend(
        session_id=body.session_id,
        query=body.query,
        m=body.count(here.engine.options.m_max),
        user_id=body.user_id,
        request_id=body.request_id,
        owner=request.state.owner,
        trusted=trusted,
        at_least=body.at_least,
        explain=body.explain,
        hits=body.hits,
        segment=body.segment,
    )
    decision = await here.answer(future)
    now = here.engine.clock.now()
    answer = {
        "decision_id": decision.decision_id,
        "recommendations": [
            _as_json(entry) | (_why(entry, decision, now) if body.explain else {})
            for entry in decision.recommendations
        ],
        "policy": decision.policy,
        "model_version": decision.model_version,
        "fallback": decision.fallback,
        **here.partial(decision.not_searched),
    }
    here.metrics.slate(fallback=decision.fallback, teaches=decision.teaches)
    here.count_offered("recommend", len(decision.recommendations), trusted=trusted)

    async def sent() -> None:
        here.engine.delivered(decision.decision_id)

    disconnected = await request.is_disconnected()  # an unseen slate must not count as a failure
    return JSONResponse(answer, background=None if disconnected else BackgroundTask(sent))


def _as_json(entry: SlateEntry) -> dict[str, object]:
    return {
        "arm_id": entry.arm,
        "text": entry.text,
        "score": entry.score,
        "propensity": entry.propensity,
        "propensity_estimated": entry.propensity_estimated,
        "source": entry.source,
    }


def _why(entry: SlateEntry, decision: Decision, now: float) -> dict[str, object]:
    reason = similar(entry.similarity)
    if entry.source == PINNED:
        reason = Reason(PINNED, "chosen by the people who run this search")
    elif entry.explored:
        reason = Reason("explored", "a random pick, to find out whether it helps")
    elif has_memory(decision.policy):
        reason = reason_of(entry.features, now=now, asked_at=entry.asked_at)
    width = entry.uncertainty  # 1 for a model that has learnt nothing
    why = {
        **reason._asdict(),
        "probability": entry.probability,
        "similarity": entry.similarity,
        "preference": entry.preference,
        "score": entry.score,
        "confidence": None if width is None else 1.0 - min(1.0, width),
    }
    return {"why": why}


@router.post(
    "/v1/feedback", response_model=bodies.FeedbackAnswer, responses=documented_errors(404, 409)
)
async def feedback(body: bodies.FeedbackBody, request: Request) -> Response:
    """Record a click, a null or a typed query. Idempotent, and durable before it is returned."""
    here = context_of(request)
    future = here.engine.submit_feedback(
        decision_id=body.decision_id,
        accepted=body.accepted,
        issued=body.issued,
        user_id=body.user_id,
        owner=request.state.owner,
        trusted=here.trusts(request, body),
        hits=body.hits,
    )
    result = await here.answer(future)
    here.metrics.feedback(result.status)
    return JSONResponse({"decision_id": result.decision_id, "status": result.status})


_SOME_FAILED: Responses = {
    207: {"model": UbiAnswer, "description": "Some records failed; the others are recorded."}
}


@router.post(
    "/v1/ubi/events", response_model=UbiAnswer, responses=documented_errors() | _SOME_FAILED
)
async def ubi_events(body: UbiBody, request: Request) -> Response:
    """Take UBI 1.3 records: queries become decisions, clicks feedback. Send them again freely."""
    items = await UbiImporter(context_of(request), request).take(body.root)
    failed = sum(item.status == "failed" for item in items)
    answer = UbiAnswer(failed=failed, items=items)
    return JSONResponse(answer.model_dump(), status_code=207 if failed else 200)


forecast_router = APIRouter()


@forecast_router.post(
    "/v1/forecast", response_model=bodies.ForecastAnswer, responses=documented_errors()
)
async def forecast(body: bodies.ForecastBody, request: Request) -> Response:
    """Return the most probable next queries with calibrated probabilities. Records nothing."""
    here = context_of(request)
    trusted = here.trusts(request, body)
    future = here.engine.submit_forecast(
        session_id=body.session_id,
        query=body.query,
        m=body.count(here.engine.options.m_max),
        user_id=body.user_id,
        owner=request.state.owner,
        trusted=trusted,
        returns=body.returns,
        at_least=body.at_least,
        segment=body.segment,
    )
    answer = await here.answer(future)
    here.count_offered("forecast", len(answer.likely), trusted=trusted)
    return JSONResponse(
        {
            "forecast": [
                {"arm_id": likely.arm, "text": likely.text, "probability": likely.probability}
                for likely in answer.likely
            ],
            "other": answer.other,
            "model_version": answer.model_version,
            **here.partial(answer.not_searched),
        }
    )
