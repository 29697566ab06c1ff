"""POST /v1/recommend: the next queries, recorded before they are returned."""

from fastapi import APIRouter, Request
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response

from nextquery.service.http import bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.served import served
from nextquery.service.log.events import SlateEntry

router = APIRouter()


@router.post(
    "/v1/recommend", response_model=bodies.RecommendAnswer, responses=documented_errors(409)
)
async def recommend(body: bodies.RecommendBody, request: Request) -> Response:
    """Recommend the next queries. The decision is durable before it is returned."""
    here = served(request)
    future = here.engine.submit_recommend(
        session_id=body.session_id,
        query=body.query,
        m=body.count(here.engine.options.m_max),
        user_id=body.user_id,
        request_id=body.request_id,
        owner=request.state.owner,
    )
    decision = await here.answer(future)
    answer = {
        "decision_id": decision.decision_id,
        "recommendations": [
            _as_json(entry, explain=body.explain) for entry in decision.recommendations
        ],
        "policy": decision.policy,
        "model_version": decision.model_version,
        "fallback": decision.fallback,
        **here.partial(decision.not_searched),
    }
    here.metrics.slate(fallback=decision.fallback, teaches=decision.teaches)

    async def sent() -> None:
        here.engine.delivered(decision.decision_id)

    gone = await request.is_disconnected()  # an unseen slate must not count as a failure
    return JSONResponse(answer, background=None if gone else BackgroundTask(sent))


def _as_json(entry: SlateEntry, *, explain: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "arm_id": entry.arm,
        "text": entry.text,
        "score": entry.score,
        "propensity": entry.propensity,
        "propensity_estimated": entry.propensity_estimated,
    }
    if explain:
        width = entry.uncertainty  # 1 for a model that has learnt nothing
        fields["why"] = {
            "similarity": entry.similarity,
            "preference": entry.preference,
            "score": entry.score,
            "confidence": None if width is None else 1.0 - min(1.0, width),
        }
    return fields
