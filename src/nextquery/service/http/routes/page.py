"""The page and its files, read once; no other file of the disk can be requested."""

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from nextquery.service.http.documentation.site import only_live_links
from nextquery.service.http.served import served

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
EXAMPLES = '    <a href="#examples" data-view="examples">Examples</a>\n'
router = APIRouter(include_in_schema=False)


@cache
def page_files() -> dict[str, bytes]:
    """Return every file of the page by name."""
    folder = files("nextquery.service").joinpath("page")
    return {
        entry.name: entry.read_bytes()
        for entry in folder.iterdir()
        if entry.name.rpartition(".")[2] in TYPES
    }


@router.get("/")
async def index(request: Request) -> Response:
    """Return the page; without a table, without the room for it."""
    page = page_files()["index.html"].decode()
    if served(request).table is None:
        page = page.replace(EXAMPLES, "")
    return _answer("index.html", only_live_links(page).encode())


@router.get("/client.js")
async def javascript_client() -> Response:
    """Return the client for browsers."""
    return _response("client.js")


@router.get("/page/{file}")
async def part(file: str) -> Response:
    """Return a file of the page."""
    if file not in page_files():
        raise HTTPException(404)
    return _response(file)


def _response(name: str) -> Response:
    return _answer(name, page_files()[name])


def _answer(name: str, content: bytes) -> Response:
    kind = TYPES[name.rpartition(".")[2]]
    headers = {"Cache-Control": "no-cache"}  # the page always matches the service
    return Response(content, media_type=kind, headers=headers)
