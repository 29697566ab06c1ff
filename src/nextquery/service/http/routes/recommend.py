"""POST /v1/recommend: the next queries, recorded before they are returned."""

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from nextquery.memory import Reason, reason_of, similar
from nextquery.policies.registry import has_memory
from nextquery.service.engine.requests import Decision
from nextquery.service.http import bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.routes.direct import DirectRoute
from nextquery.service.http.served import served
from nextquery.service.log.events import PINNED, SlateEntry

router = APIRouter(route_class=DirectRoute)


@router.post(
    "/v1/recommend", response_model=bodies.RecommendAnswer, responses=documented_errors(409)
)
async def recommend(body: bodies.RecommendBody, request: Request) -> Response:
    """Recommend the next queries. The decision is durable before it is returned."""
    here = served(request)
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

    gone = await request.is_disconnected()  # an unseen slate must not count as a failure
    return JSONResponse(answer, background=None if gone else BackgroundTask(sent))


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
