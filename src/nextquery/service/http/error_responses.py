"""Error responses: RFC 9457 problem documents, without stack traces.

Each names what was received, what is allowed and what to do next. Values are quoted in ASCII and
cut short, so that no input can break the response.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

LONGEST = 200
Responses = dict[int | str, dict[str, Any]]
_DESCRIPTIONS = {
    400: "The body is not JSON, or the Host header is not allowed.",
    401: "The API key is missing, unknown or revoked.",
    403: "The scope of the API key is too small, the web page's origin is not allowed, or the "
    "user_signature is not that of the user_id.",
    404: "There is no such decision, user or session, or no table is served.",
    408: "The body did not arrive in time.",
    409: "The request contradicts an earlier one.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    422: "A field is invalid.",
    429: "Too many requests with this API key.",
    503: "The store or a part of the arms is unavailable. Nothing was written. Try again.",
}


class Mistake(BaseModel):
    """One invalid field."""

    field: str
    received: str
    allowed: str


class Problem(BaseModel):
    """Why a request failed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "m: received '0'; Input should be greater than or equal to 1.",
                    "request_id": "5f0c2b9e7a41",
                    "errors": [
                        {
                            "field": "m",
                            "received": "0",
                            "allowed": "Input should be greater than or equal to 1",
                        }
                    ],
                }
            ]
        }
    )

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    request_id: str
    errors: list[Mistake] = Field(default_factory=list)


def problem(
    status: int,
    detail: str,
    *,
    request_id: str,
    errors: Sequence[Mistake] = (),
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return the response for an error."""
    body = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail.encode("utf-8", "backslashreplace").decode(),
        request_id=request_id,
        errors=list(errors),
    )
    return JSONResponse(
        body.model_dump(),
        status_code=status,
        media_type="application/problem+json",
        headers=dict(headers or {}),
    )


def quoted(value: Any) -> str:
    r"""Quote a received value so that it is safe to send back: ASCII and short.

    >>> quoted("\ud800"), quoted(float("nan")), len(quoted("x" * 999))
    ("'\\ud800'", 'nan', 201)
    """
    try:
        text = ascii(value)
    except RecursionError:
        return "a value nested too deeply"
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def mistakes(errors: Sequence[Mapping[str, Any]]) -> list[Mistake]:
    """Convert the errors of pydantic to fields, values and what is allowed."""
    converted = []
    for error in errors:
        place = [str(part) for part in error["loc"] if part != "body"]
        missing = error["type"] == "missing"
        allowed = error["msg"].removeprefix("Value error, ")
        converted.append(
            Mistake(
                field=".".join(place) or "body",
                received="nothing" if missing else quoted(error["input"]),
                allowed=allowed,
            )
        )
    return converted


def documented_errors(*more: int, body: bool = True) -> Responses:
    """Return the errors that OpenAPI lists for a route: the common ones, and `more`.

    >>> sorted(documented_errors(409, body=False))
    [400, 401, 403, 409, 422, 429, 503]
    """
    every = (400, 401, 403, 422, 429, 503, *more, *((408, 413, 415) if body else ()))
    return {status: {"model": Problem, "description": _DESCRIPTIONS[status]} for status in every}
