"""The API page: every endpoint with its fields, one HTML page without scripts."""

from collections.abc import Sequence
from html import escape

from nextquery.service.http.documentation.endpoints import Endpoint, Field

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
    errors = f'<section id="errors">\n<h2>Errors</h2>\n{_fields(problem, "Fields of an error")}'
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
        parts += ["<h3>Request</h3>\n", _fields(one.fields, "Fields of the request")]
    parts += [_example("request", one.body), "<h3>Answer</h3>\n"]
    if one.answers:
        parts += [_fields(one.answers, "Fields of the answer", required=False)]
    parts += [_example(one.answer_type, one.answer)]
    if one.errors:
        rows = "".join(f"<dt>{status}</dt><dd>{escape(about)}</dd>" for status, about in one.errors)
        parts += [f"<details><summary>Errors</summary><dl>{rows}</dl></details>\n"]
    return "".join(parts) + "</section>\n"


def _fields(fields: Sequence[Field], title: str, *, required: bool = True) -> str:
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


def _example(title: str, text: str) -> str:
    if not text:
        return ""
    shown = f'<pre tabindex="0">{escape(text)}</pre>'
    return f'<p class="note">Example ({escape(title)})</p>\n{shown}\n'
