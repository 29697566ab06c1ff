"""POST /v1/feedback: what a person did with a slate."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.http import bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.routes.direct import DirectRoute
from nextquery.service.http.served import served

router = APIRouter(route_class=DirectRoute)


@router.post(
    "/v1/feedback", response_model=bodies.FeedbackAnswer, responses=documented_errors(404, 409)
)
async def feedback(body: bodies.FeedbackBody, request: Request) -> Response:
    """Record a click, a null or a typed query. Idempotent, and durable before it is returned."""
    here = served(request)
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
