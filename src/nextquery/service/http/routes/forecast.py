"""POST /v1/forecast: the most probable next queries, for prefetching."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.http import bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.served import served

router = APIRouter()


@router.post("/v1/forecast", response_model=bodies.ForecastAnswer, responses=documented_errors())
async def forecast(body: bodies.ForecastBody, request: Request) -> Response:
    """Return the most probable next queries with calibrated probabilities. Records nothing."""
    here = served(request)
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
