"""The routes a search box uses: recommend, feedback, forecast."""

import asyncio
from concurrent.futures import Future
from typing import Any, TypeVar

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from nextquery.errors import StoreUnavailable
from nextquery.service.answer.engine import Engine
from nextquery.service.answer.results import Recommendation
from nextquery.service.http import bodies as b
from nextquery.service.http.documented_errors import refusals

_T = TypeVar("_T")
router = APIRouter()


@router.post("/v1/recommend", response_model=b.RecommendAnswer, responses=refusals(409))
async def recommend(body: b.RecommendBody, request: Request) -> Response:
    """Recommend the next queries; the decision is durable before it is answered."""
    state = request.app.state
    engine: Engine = state.engine
    asked = body.model_dump(exclude={"explain"})
    decision = await soon(engine.submit_recommend(**asked, owner=request.state.owner), request)
    answer = {
        "decision_id": decision.decision_id,
        "recommendations": [
            {
                "arm_id": entry.arm_id,
                "text": entry.text,
                "score": entry.score,
                "propensity": entry.propensity,
                "propensity_estimated": entry.propensity_estimated,
                **({"why": _why(entry)} if body.explain else {}),
            }
            for entry in decision.recommendations
        ],
        "policy": decision.policy,
        "model_version": decision.model_version,
        "fallback": decision.fallback,
        **partial(decision.not_searched, request),
    }
    state.metrics.slate(fallback=decision.fallback)

    async def sent() -> None:
        engine.delivered(decision.decision_id)

    gone = await request.is_disconnected()  # nobody will see it: it must not count as a failure
    return JSONResponse(answer, background=None if gone else BackgroundTask(sent))


@router.post("/v1/feedback", response_model=b.FeedbackAnswer, responses=refusals(404, 409))
async def feedback(body: b.FeedbackBody, request: Request) -> Response:
    """Say what became of a slate: idempotent, and durable before it is acknowledged."""
    state = request.app.state
    result = await soon(state.engine.submit_feedback(**body.model_dump()), request)
    state.metrics.feedback(result.status)
    return JSONResponse({"decision_id": result.decision_id, "status": result.status})


@router.post("/v1/forecast", response_model=b.ForecastAnswer, responses=refusals())
async def forecast(body: b.ForecastBody, request: Request) -> Response:
    """The likeliest next queries with calibrated probabilities; records nothing."""
    said = await soon(request.app.state.engine.submit_forecast(**body.model_dump()), request)
    likely = [{"arm_id": arm, "text": text, "probability": p} for arm, text, p in said.likely]
    return JSONResponse(
        {
            "forecast": likely,
            "other": said.other,
            "model_version": said.model_version,
            **partial(said.not_searched, request),
        }
    )


def _why(entry: Recommendation) -> dict[str, Any]:
    """What speaks for an entry; an untaught model has width 1 for a unit row of features."""
    width = entry.uncertainty
    return {
        "similarity": entry.similarity,
        "preference": entry.preference,
        "score": entry.score,
        "confidence": None if width is None else 1.0 - min(1.0, width),
    }


def partial(not_searched: int, request: Request) -> dict[str, Any]:
    """What an answer says of the arms that were away; counted where there are any."""
    if not_searched:
        request.app.state.metrics.shards_missed("partial")
    return {"partial": not_searched > 0, "not_searched": not_searched}


async def soon(answer: "Future[_T]", request: Request) -> _T:
    """What the engine promised, without blocking others; it is never cancelled half-way."""
    seconds = request.app.state.seconds
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(asyncio.wrap_future(answer))
    except TimeoutError:
        raise StoreUnavailable(
            f"no answer within {seconds:g} s; try again, with the same request_id."
        ) from None
