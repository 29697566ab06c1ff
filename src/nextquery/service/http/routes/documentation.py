"""The documentation site at /docs/, from files of the package."""

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response

from nextquery.service.http.documentation.site import NOT_BUILT, POLICY, is_built, site_file

router = APIRouter(include_in_schema=False)
_HEADERS = {
    "Cache-Control": "no-cache",  # the documentation always matches the service
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
}


@router.get("/docs")
async def with_slash() -> Response:
    """Lead to the start page, so that its relative links work; the address names no host."""
    return RedirectResponse("/docs/", status_code=307)


@router.get("/docs/{file:path}")
async def part(file: str) -> Response:
    """Return a file of the site."""
    if not is_built():
        return PlainTextResponse(NOT_BUILT, status_code=404, headers=_HEADERS)
    found = site_file(file)
    if found is None:
        raise HTTPException(404)
    return FileResponse(found, headers=_HEADERS)
