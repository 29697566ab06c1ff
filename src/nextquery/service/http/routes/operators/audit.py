"""Routes for operators: who changed what."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from nextquery.service.http import page_bodies
from nextquery.service.http.error_responses import documented_errors
from nextquery.service.http.served import served
from nextquery.service.log.operators import as_json, changes

router = APIRouter()


@router.get(
    "/v1/audit", response_model=page_bodies.AuditAnswer, responses=documented_errors(body=False)
)
async def audit(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many.")] = 100,
    since: Annotated[float, Query(ge=0, description="Unix time; older ones are left out.")] = 0.0,
) -> Response:
    """Return what operators changed, newest first: when, what, and who did it."""
    store = served(request).engine.store
    found = await served(request).calls(lambda: changes(store, since=since, limit=limit))
    return JSONResponse({"changes": [as_json(change) for change in found]})
