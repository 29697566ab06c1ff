"""The API page and the documentation site, served from files of the package.

The API page is one HTML page without scripts: every endpoint with its fields, read from the
OpenAPI document. The site is at /docs/. Only its own files can be requested, and no other file of
the disk.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response

Schema = Mapping[str, Any]
DEEPEST = 4  # objects in objects


class Field(NamedTuple):
    """A field of a request or an answer; fields of objects in it follow, with dotted names."""

    name: str
    kind: str
    required: bool
    about: str


class Endpoint(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    scope: str
    about: str
    body: str  #: an example of the request's body, as JSON, or ""
    fields: tuple[Field, ...]  #: of the body, or the parameters of the query
    answer: str  #: an example of the answer
    answer_type: str  #: the media type of the example
    answers: tuple[Field, ...]
    errors: tuple[tuple[str, str], ...]  #: status, cause

    @property
    def anchor(self) -> str:
        """The name of its place in a page.

        >>> Endpoint("POST", "/v1/arms/approve", "", "", "", (), "", "", (), ()).anchor
        'post-v1-arms-approve'
        """
        return re.sub(r"\W+", "-", (self.method + self.path).lower()).strip("-")


def endpoints(document: Schema) -> list[Endpoint]:
    """Return every endpoint of an OpenAPI document, in its order."""
    return [
        _endpoint(document, method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def problem_fields(document: Schema) -> tuple[Field, ...]:
    """Return the fields of an error."""
    return tuple(_fields(document, {"$ref": "#/components/schemas/Problem"}))


def _endpoint(document: Schema, method: str, path: str, operation: Schema) -> Endpoint:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    contents: Schema = operation["responses"]["200"].get("content", {})
    kind = next(iter(contents), "")
    content: Schema = contents.get(kind, {})
    parameters = (
        _field(document, one["name"], one["schema"], one.get("required", False), one)
        for one in operation.get("parameters", [])
    )
    return Endpoint(
        method,
        path,
        operation["x-scope"],
        " ".join(operation.get("description", "").split()),
        _example(document, body),
        (*_required_first(_fields(document, body.get("schema", {}))), *parameters),
        _example(document, content),
        kind,
        tuple(_fields(document, content.get("schema", {}))),
        tuple(
            (status, response["description"])
            for status, response in sorted(operation["responses"].items())
            if status != "200"
        ),
    )


def _required_first(fields: Iterator[Field]) -> list[Field]:
    """Return the fields of a body; those of objects in it stay below their object."""
    found = list(fields)
    nested = any("." in field.name for field in found)
    return found if nested else sorted(found, key=lambda field: not field.required)


def _resolved(document: Schema, schema: Schema) -> Schema:
    """Return what a reference refers to; null is left out of a choice."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {**document["components"]["schemas"][name], **_without(schema, "$ref")}
    choices = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    if len(choices) == 1:
        return {**_resolved(document, choices[0]), **_without(schema, "anyOf")}
    return schema


def _without(schema: Schema, name: str) -> Schema:
    return {key: value for key, value in schema.items() if key != name}


def _fields(document: Schema, schema: Schema, before: str = "", depth: int = 0) -> Iterator[Field]:
    """Yield the fields of an object, each followed by those of the object it holds."""
    found = _resolved(document, schema)
    required = found.get("required", ())
    for name, inner in found.get("properties", {}).items():
        yield _field(document, before + name, inner, name in required, inner)
        held = _resolved(document, inner)
        below = f"{before}{name}."
        if held.get("type") == "array":
            held, below = _resolved(document, held.get("items", {})), f"{before}{name}[]."
        if depth < DEEPEST:
            yield from _fields(document, held, below, depth + 1)


def _field(document: Schema, name: str, schema: Schema, required: bool, described: Schema) -> Field:
    about = described.get("description", "")
    default = schema.get("default")
    if default is not None:
        about = f"{about} Default: {json.dumps(default)}.".strip()
    return Field(name, kind_of(document, schema), required, about)


def kind_of(document: Schema, schema: Schema) -> str:
    """Return the type of a field in words, with its limits.

    >>> kind_of({}, {"type": "integer", "minimum": 1, "maximum": 50})
    'integer, 1 to 50'
    >>> kind_of({}, {"anyOf": [{"type": "string", "maxLength": 256}, {"type": "null"}]})
    'string, at most 256 characters, or null'
    >>> kind_of({}, {"type": "array", "items": {"enum": ["a", "b"]}})
    'list of "a" or "b"'
    """
    found = _resolved(document, schema)
    nullable = any(one.get("type") == "null" for one in schema.get("anyOf", []))
    return _plain_kind(document, found) + (", or null" if nullable else "")


def _plain_kind(document: Schema, found: Schema) -> str:
    if "const" in found or "enum" in found:
        values = found.get("enum", [found.get("const")])
        return " or ".join(json.dumps(value) for value in values)
    if found.get("type") == "array":
        return f"list of {kind_of(document, found.get('items', {}))}"
    if "anyOf" in found:
        kinds = [kind_of(document, one) for one in found["anyOf"] if one.get("type") != "null"]
        return " or ".join(kinds)
    low, high = found.get("minimum"), found.get("maximum")
    limits = ""
    if high is not None:
        limits = f", {low:g} to {high:g}"
    elif low is not None:
        limits = f", at least {low:g}"
    if "maxLength" in found:
        limits += f", at most {found['maxLength']:,} characters"
    return str(found.get("type", "any value")) + limits


def _example(document: Schema, content: Schema) -> str:
    """Return an example of a body: what the route gives, or else what its schema gives."""
    for found in (content, _resolved(document, content.get("schema", {}))):
        if "example" in found:
            return _shown(found["example"])
        for one in _values(found.get("examples")):
            return _shown(one)
    return ""


def _values(examples: Any) -> list[Any]:
    """Return examples that are a list, or those of a mapping from names."""
    if isinstance(examples, Mapping):
        return [one.get("value") for one in examples.values()]
    return list(examples or [])


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


SCOPE = {
    "public": "needs no key",
    "read": "needs a key with scope read, write or admin",
    "write": "needs a key with scope write or admin",
    "admin": "needs a key with scope admin, or the token of the start",
}
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>nextquery: the HTTP API</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/style.css">
<link rel="stylesheet" href="/page/reference.css">
</head>
<body class="reference">
<a class="skip" href="#main">Skip to content</a>
<header class="top">
  <a class="name" href="/">nextquery</a>
  <nav class="tabs" aria-label="Documentation">
    <a href="/api" aria-current="page">API</a>
    <a href="/docs/">Documentation</a>
  </nav>
</header>
<main id="main">
<h1>The HTTP API</h1>
<p>Requests and answers are JSON. <a href="/openapi.json">/openapi.json</a> has the same for
programs. Send an API key as <code>Authorization: Bearer KEY</code>. Without API keys, read and
write paths are open to this machine. <a href="#errors">Errors</a> are problem documents (RFC 9457)
with what was received, what is allowed and what to do.</p>
"""
_TAIL = "</main>\n</body>\n</html>\n"


def api_page(endpoints: Sequence[Endpoint], problem: Sequence[Field]) -> str:
    """Return the page of some endpoints, and of the fields that every error has."""
    errors = (
        f'<section id="errors">\n<h2>Errors</h2>\n{_field_table(problem, "Fields of an error")}'
    )
    sections = "".join(map(_section, endpoints))
    return f"{_HEAD}{_contents(endpoints)}{sections}{errors}</section>\n{_TAIL}"


def _contents(endpoints: Sequence[Endpoint]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{one.anchor}"><code>{one.method} {escape(one.path)}</code></a></td>'
        f"<td>{_scope(one)}</td><td>{escape(one.about)}</td></tr>\n"
        for one in endpoints
    )
    head = "<tr><th>path</th><th>scope</th><th>what it does</th></tr>"
    return _table(f"<thead>{head}</thead><tbody>\n{rows}</tbody>", "Endpoints")


def _scope(one: Endpoint) -> str:
    return f'<span class="scope {one.scope}">{one.scope}</span>'


def _section(one: Endpoint) -> str:
    parts = [
        f'<section id="{one.anchor}">\n<h2><code>{one.method} {escape(one.path)}</code></h2>\n',
        f"<p>{escape(one.about)}</p>\n<p>{_scope(one)} {SCOPE[one.scope]}</p>\n",
    ]
    if one.fields:
        parts += ["<h3>Request</h3>\n", _field_table(one.fields, "Fields of the request")]
    parts += [_example_block("request", one.body), "<h3>Answer</h3>\n"]
    if one.answers:
        parts += [_field_table(one.answers, "Fields of the answer", required=False)]
    parts += [_example_block(one.answer_type, one.answer)]
    if one.errors:
        rows = "".join(f"<dt>{status}</dt><dd>{escape(about)}</dd>" for status, about in one.errors)
        parts += [f"<details><summary>Errors</summary><dl>{rows}</dl></details>\n"]
    return "".join(parts) + "</section>\n"


def _field_table(fields: Sequence[Field], title: str, *, required: bool = True) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(field.name)}</code>"
        f"{' <em>required</em>' if field.required and required else ''}</td>"
        f"<td>{escape(field.kind)}</td><td>{escape(field.about)}</td></tr>\n"
        for field in fields
    )
    head = "<tr><th>field</th><th>type</th><th>meaning</th></tr>"
    return _table(f"<thead>{head}</thead><tbody>\n{rows}</tbody>", title)


def _table(rows: str, title: str) -> str:
    """Return a table in a box that scrolls by keyboard too, so that a phone's page does not."""
    box = f'<div class="wide" role="region" aria-label="{title}" tabindex="0">'
    return f"{box}<table>{rows}</table></div>\n"


def _example_block(title: str, text: str) -> str:
    if not text:
        return ""
    shown = f'<pre tabindex="0">{escape(text)}</pre>'
    return f'<p class="note">Example ({escape(title)})</p>\n{shown}\n'


FOLDER = Path(__file__).parents[1] / "site"
"""Filled by ``make docs`` (``python -m docsite --into-package``)."""
LINK = '<a href="/docs/">Documentation</a>'
NOT_BUILT = "The documentation is not built yet: run `make docs` in the checkout, and start again."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def site_file(path: str) -> Path | None:
    """Return the file of the site that a path names, or None.

    A path is looked up among the files that exist, so none can lead out of the folder.
    """
    return _files(FOLDER).get(path or "index.html")


def is_built() -> bool:
    """Whether the site is in the package."""
    return bool(_files(FOLDER))


def only_live_links(page: str) -> str:
    """Return a page of the service without its link to the site, if the site is not there."""
    return page if is_built() else page.replace(LINK, "")


@lru_cache(maxsize=2)
def _files(folder: Path) -> dict[str, Path]:
    return {
        file.relative_to(folder).as_posix(): file
        for file in folder.rglob("*")
        if file.is_file() and not file.is_symlink()
    }


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
