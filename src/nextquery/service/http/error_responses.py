"""Errors as the client sees them: RFC 9457 problem documents, never a trace.

Each says what was received, what is allowed and what to do; values are quoted in ASCII and cut
short, so that no input can break the answer.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse

LONGEST = 200


class Mistake(BaseModel):
    """One field that cannot be used."""

    field: str
    received: str
    allowed: str


class Problem(BaseModel):
    """Why a request was not answered."""

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
    """The response for an error."""
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
    r"""A value received, safe to send back: ASCII, and not longer than it is useful.

    >>> quoted("\ud800"), quoted(float("nan")), len(quoted("x" * 999))
    ("'\\ud800'", 'nan', 201)
    """
    try:
        text = ascii(value)
    except RecursionError:
        return "a value nested too deeply"
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def mistakes(errors: Sequence[Mapping[str, Any]]) -> list[Mistake]:
    """What pydantic found, as fields, values and what is allowed."""
    found = []
    for error in errors:
        place = [str(part) for part in error["loc"] if part != "body"]
        missing = error["type"] == "missing"
        allowed = error["msg"].removeprefix("Value error, ")
        found.append(
            Mistake(
                field=".".join(place) or "body",
                received="nothing" if missing else quoted(error["input"]),
                allowed=allowed,
            )
        )
    return found
