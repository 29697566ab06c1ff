"""The refusals that the OpenAPI document lists for a route."""

from typing import Any

from nextquery.service.http.error_responses import Problem

Responses = dict[int | str, dict[str, Any]]

_WORDS = {
    400: "Not JSON, or addressed to another host.",
    401: "No key, or an unknown one.",
    403: "A key of too little scope, or a foreign page.",
    404: "Nobody made this decision.",
    408: "The body did not arrive.",
    409: "It contradicts what was said before.",
    413: "The body is too large.",
    415: "Not application/json.",
    422: "A field that cannot be used.",
    429: "Too many requests with this key.",
    503: "The store does not take this now, or a part of the arms is away; nothing was written. "
    "Try again.",
}


def refusals(*more: int, body: bool = True) -> Responses:
    """Those that any route may give, those of routes with a body, and `more`.

    >>> sorted(refusals(409, body=False))
    [400, 401, 403, 409, 422, 429, 503]
    """
    every = (400, 401, 403, 422, 429, 503, *more, *((408, 413, 415) if body else ()))
    return {status: {"model": Problem, "description": _WORDS[status]} for status in every}
