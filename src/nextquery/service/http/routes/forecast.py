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
    future = here.engine.submit_forecast(
        session_id=body.session_id,
        query=body.query,
        m=body.count(here.engine.options.m_max),
        owner=request.state.owner,
    )
    answer = await here.answer(future)
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
