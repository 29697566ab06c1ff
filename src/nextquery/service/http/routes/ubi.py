"""POST /v1/ubi/events: queries and events that search teams record already."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.exchange.ubi_in import Taker, UbiAnswer, UbiBody
from nextquery.service.http.error_responses import Responses, documented_errors
from nextquery.service.http.routes.direct import DirectRoute
from nextquery.service.http.served import served

router = APIRouter(route_class=DirectRoute)
_SOME_FAILED: Responses = {
    207: {"model": UbiAnswer, "description": "Some records failed; the others are recorded."}
}


@router.post(
    "/v1/ubi/events", response_model=UbiAnswer, responses=documented_errors() | _SOME_FAILED
)
async def ubi_events(body: UbiBody, request: Request) -> Response:
    """Take UBI 1.3 records: queries become decisions, clicks feedback. Send them again freely."""
    items = await Taker(served(request), request).take(body.root)
    failed = sum(item.status == "failed" for item in items)
    answer = UbiAnswer(failed=failed, items=items)
    return JSONResponse(answer.model_dump(), status_code=207 if failed else 200)
