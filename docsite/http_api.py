"""The HTTP API as a page of the site, from the same endpoints as the service's page at /api."""

from collections.abc import Sequence

from nextquery.service.http.app import described
from nextquery.service.http.documentation import SCOPE, Endpoint, Field
from nextquery.service.log.schema import MOST_RECOMMENDATIONS


def http_page() -> str:
    """Return the page, in Markdown."""
    parts = [
        "# HTTP API, field by field\n",
        "This page is made from what a service says of itself at `/openapi.json`. "
        "A running service shows the same at `/api`. "
        "[The HTTP API](../reference/http.md) explains what the calls mean.\n",
    ]
    for one in described(MOST_RECOMMENDATIONS):
        parts += _section(one)
    return "\n".join(parts)


def _section(one: Endpoint) -> list[str]:
    parts = [
        f"## {one.method} `{one.path}`\n",
        f"{one.about}\n",
        f"**{one.scope}**: {SCOPE[one.scope]}.\n",
    ]
    if one.fields:
        parts += ["**Request**\n", _table(one.fields)]
    if one.body:
        parts += [f"```text\n{one.body}\n```\n"]
    parts += ["**Answer**\n"]
    if one.answers:
        parts += [_table(one.answers, required=False)]
    if one.answer:
        parts += [f"```text\n{one.answer}\n```\n"]
    if one.errors:
        parts += ["**Errors**\n", "| status | cause |\n|---|---|"]
        parts[-1] += "".join(f"\n| {status} | {_cell(about)} |" for status, about in one.errors)
        parts[-1] += "\n"
    return parts


def _table(fields: Sequence[Field], *, required: bool = True) -> str:
    rows = ["| field | type | meaning |", "|---|---|---|"]
    for field in fields:
        needed = " (required)" if field.required and required else ""
        rows.append(f"| `{field.name}`{needed} | {_cell(field.kind)} | {_cell(field.about)} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    """Return a text that can stand in a cell of a table.

    >>> _cell("a|b <c>_")
    'a\\\\|b \\\\<c\\\\>\\\\_'
    """
    return "".join("\\" + c if c in "|<>_*[]`" else c for c in text)
