"""A route without the parts of FastAPI that busy paths do not need."""

import json
from typing import Any

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class DirectRoute(APIRoute):
    """A route whose function takes a body and the request, and returns a response.

    FastAPI documents it like any other, but its search for dependencies and its exit stacks, two
    thirds of the time that it takes for a small request, are left out. The checks and errors are
    the same.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; another method than this route's is an error of FastAPI's."""
        if scope["method"] not in (self.methods or ()):
            return await super().handle(scope, receive, send)
        assert self.body_field is not None
        kind: type[BaseModel] = self.body_field.field_info.annotation  # type: ignore[assignment]
        request = Request(scope, receive, send)
        received = _json_of(await request.body())
        try:
            body = kind.model_validate(received, from_attributes=True)
        except ValidationError as error:
            errors = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
            raise RequestValidationError(errors) from None
        response: Response = await self.endpoint(body, request)
        await response(scope, receive, send)


def _json_of(body: bytes) -> Any:
    if not body:
        missing = {"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}
        raise RequestValidationError([missing])
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        wrong = {"type": "json_invalid", "loc": ("body", error.pos), "msg": error.msg, "input": {}}
        raise RequestValidationError([wrong]) from None
    except Exception:  # not UTF-8, or nested too deeply
        raise HTTPException(400, "There was an error parsing the body") from None
