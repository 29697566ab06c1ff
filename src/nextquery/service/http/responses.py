"""Responses and the log of the routes: problem documents, JSON log lines, streams, scopes.

*Errors* are RFC 9457 problem documents, without stack traces. Each names what was received, what
is allowed and what to do next. Values are quoted in ASCII and cut short, so that no input can
break the response.

*The log* on standard error has one JSON object per line, without queries or secrets. An error is
logged with its type and its stack. Its message may quote a query, so it is logged only if
`log_queries` is set. All lines go through this log: those of all libraries, warnings, and
uncaught exceptions in any thread. Repeated lines are limited, so that an attack cannot fill the
disk.

*Scopes*: one table for access control, documentation and tests has the scope that each path
needs. A path that is not in the table needs the highest scope, so a new route is closed until it
is added.

A streamed response can run its work in the lane of expensive requests. `WorkerContext` is what the
routes work with: the engine and its surroundings, typed.
"""

import asyncio
import contextlib
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from nextquery.errors import StoreUnavailable
from nextquery.service.engine.engine import Engine
from nextquery.service.engine.explore import ExploredTable
from nextquery.service.engine.handler import Arrivals
from nextquery.service.engine.page_work import Simulator
from nextquery.service.engine.requests import Lane, Trust
from nextquery.service.http.bodies import AboutUser
from nextquery.service.http.metrics import Metrics
from nextquery.service.log.database import StoreCalls

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


class LaneResponse(StreamingResponse):
    """Sends chunks as they are made, one step of the lane each.

    Parameters
    ----------
    lane : where each chunk is made.
    chunks : an empty chunk is a step of work that sends nothing.
    ended : called in the lane after the last step, however the response ends: it is complete, the
        client left (even before the first chunk), or a step failed.
    media_type, headers : of the response.
    """

    def __init__(
        self,
        lane: Lane,
        chunks: Iterator[bytes],
        *,
        ended: Callable[[], None],
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        lane.expect_room()  # later, the head of the response has been sent
        super().__init__(self._made(chunks), media_type=media_type, headers=headers)
        self._lane, self._ended = lane, ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, and end the work with it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with contextlib.suppress(StoreUnavailable):  # the worker is closing
                self._lane.submit(self._ended, always=True)

    async def _made(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while True:
            step = self._lane.submit(lambda: next(chunks, None), always=True)
            chunk = await asyncio.wrap_future(step)
            if chunk is None:
                return
            if chunk:
                yield chunk


_WINDOW_S = 10.0
_ALLOWED = 5  # equal lines in a window
_KINDS = 1000  # kinds of lines remembered


class RepeatedLines:
    """Decides which log records are written; equal warnings and errors are counted instead.

    Two records are equal if they come from the same line of code with the same type of exception.

    >>> repeated = RepeatedLines(clock=lambda: 0.0)
    >>> record = logging.LogRecord("x", logging.ERROR, "file", 1, "failed", None, None)
    >>> sum(repeated.allows(record) for _ in range(100))
    5
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._windows: dict[tuple[object, ...], tuple[float, int, logging.LogRecord]] = {}

    def allows(self, record: logging.LogRecord) -> bool:
        """Whether to write this record; information is always written."""
        if record.levelno < logging.WARNING:
            return True
        kind = record.exc_info[0] if record.exc_info else None
        key = (record.name, record.pathname, record.lineno, str(record.msg)[:200], kind)
        with self._lock:
            start, count, _ = self._windows.get(key, (self._clock(), 0, record))
            if count == 0 and len(self._windows) >= _KINDS:
                return False
            self._windows[key] = (start, count + 1, record)
            return count < _ALLOWED

    def due(self) -> list[logging.LogRecord]:
        """Return a record for each kind that was counted in a window that is over."""
        with self._lock:
            over = self._clock() - _WINDOW_S
            ended = {key: one for key, one in self._windows.items() if one[0] <= over}
            for key in ended:
                del self._windows[key]
        return [
            _summary(record, count - _ALLOWED)
            for _, count, record in ended.values()
            if count > _ALLOWED
        ]


def _summary(record: logging.LogRecord, more: int) -> logging.LogRecord:
    values = {**record.__dict__, "exc_info": None, "exc_text": None}
    values["fields"] = {"repeated": more, "seconds": _WINDOW_S}
    return logging.makeLogRecord(values)


LOGGER = logging.getLogger("nextquery.service")


class JsonLines(logging.Formatter):
    """Formats a log record as JSON.

    >>> record = logging.LogRecord("x", logging.INFO, "", 0, "hello", None, None)
    >>> json.loads(JsonLines(messages=False).format(record))["message"]
    'hello'
    """

    def __init__(self, *, messages: bool) -> None:
        super().__init__()
        self._messages = messages

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        fields: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": self._message(record),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = described(record.exc_info[1], messages=self._messages)
        return json.dumps(fields, default=str)

    def _message(self, record: logging.LogRecord) -> str:
        """Return the message; of other libraries only its first line, as more may quote a query."""
        message = record.getMessage()
        ours = record.name.partition(".")[0] == "nextquery"
        return message if ours or self._messages else message.partition("\n")[0]


class JsonHandler(logging.StreamHandler[Any]):
    """Writes records as JSON lines; of equal errors only the first few, then their number."""

    def __init__(self, *, messages: bool) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(JsonLines(messages=messages))
        self._repeated = RepeatedLines()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, and what is to be said about earlier ones."""
        for summary in self._repeated.due():
            super().emit(summary)
        if self._repeated.allows(record):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop a line that cannot be written, instead of writing a traceback."""


def described(error: BaseException, *, messages: bool) -> dict[str, object]:
    """Describe an error for the log.

    >>> described(KeyError("a query"), messages=False)
    {'type': 'KeyError', 'trace': []}
    """
    frames = traceback.extract_tb(error.__traceback__)
    fields: dict[str, object] = {
        "type": type(error).__name__,
        "trace": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    return {**fields, "text": str(error)} if messages else fields


def start(*, level: str, messages: bool) -> None:
    """Send every log line, warning and uncaught exception of this process to standard error."""
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers = [JsonHandler(messages=messages)]
    root.setLevel(logging.WARNING)
    for name in ("nextquery", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, LOGGER.getEffectiveLevel()))
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )
    sys.unraisablehook = lambda args: _uncaught(
        args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
    )


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, (KeyboardInterrupt, SystemExit)):
        LOGGER.error("uncaught exception", exc_info=(kind, error, trace))


PUBLIC, READ, WRITE, ADMIN = "public", "read", "write", "admin"
SCOPES = (READ, WRITE, ADMIN)  #: each includes the ones before it

NEEDED = {
    "/v1/recommend": WRITE,  # it records a decision
    "/v1/feedback": WRITE,
    "/v1/ubi/events": WRITE,
    "/v1/forecast": READ,
    "/v1/map": READ,
    "/v1/explore": READ,
    "/v1/examples": READ,
    "/v1/stats": READ,
    "/v1/experiment": READ,
    "/v1/simulate": WRITE,  # it records nothing, but uses a core for seconds
    "/v1/block": ADMIN,
    "/v1/unblock": ADMIN,
    "/v1/patterns": ADMIN,
    "/v1/patterns/remove": ADMIN,
    "/v1/curated": ADMIN,
    "/v1/pins": ADMIN,
    "/v1/pins/remove": ADMIN,
    "/v1/audit": ADMIN,
    "/v1/switch": ADMIN,
    "/v1/model/roll-back": ADMIN,
    "/v1/model/end-fallback": ADMIN,
    "/v1/arms": ADMIN,  # it shows queries that are held for review
    "/v1/arms/approve": ADMIN,
    "/v1/arms/reject": ADMIN,
    "/v1/arms/remove": ADMIN,
    "/v1/users/{id}": ADMIN,
    "/v1/sessions/{id}": ADMIN,
    "/v1/operate": ADMIN,
    "/v1/decisions": ADMIN,
    "/v1/export": ADMIN,
    "/metrics": READ,
    "/openapi.json": READ,
    "/healthz": PUBLIC,
    "/readyz": PUBLIC,
    "/": PUBLIC,
    "/client.js": PUBLIC,
    "/page/{file}": PUBLIC,
    "/api": PUBLIC,
    "/docs": PUBLIC,
    "/docs/{file:path}": PUBLIC,
}
COST = {
    **{"/v1/ubi/events": 20, "/v1/map": 20},
    **dict.fromkeys(("/v1/explore", "/v1/simulate", "/v1/export"), 100),
}
"""How many requests of the rate limit a path counts as, if more than one."""
_FOLDERS = {
    "/page/": "/page/{file}",
    "/docs/": "/docs/{file:path}",
    "/v1/users/": "/v1/users/{id}",
    "/v1/sessions/": "/v1/sessions/{id}",
}


def row(path: str) -> str | None:
    """Return the row of the table for a path, or None.

    >>> row("/v1/stats"), row("/page/app.js"), row("/not/in/the/table")
    ('/v1/stats', '/page/{file}', None)
    """
    for folder, file in _FOLDERS.items():
        if path.startswith(folder):
            return file
    return path if path in NEEDED else None


def needed(path: str) -> str:
    """Return the scope that a path needs.

    >>> needed("/v1/feedback"), needed("/v1/stats"), needed("/not/in/the/table")
    ('write', 'read', 'admin')
    """
    return NEEDED.get(row(path) or "", ADMIN)


def cost(path: str, limit: int) -> int:
    """Return how many requests a path counts as: never more than a tenth of the rate limit.

    >>> cost("/v1/stats", 1000), cost("/v1/simulate", 1000), cost("/v1/simulate", 5)
    (1, 100, 1)
    """
    return max(1, min(COST.get(path, 1), limit // 10))


def allows(held: str, scope: str) -> bool:
    """Whether a key with scope `held` includes `scope`.

    >>> allows("write", "read"), allows("read", "write"), allows("read", "public")
    (True, False, True)
    """
    return scope == PUBLIC or SCOPES.index(held) >= SCOPES.index(scope)


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class WorkerContext:
    """The engine of this worker and what its routes need to know."""

    engine: Engine
    metrics: Metrics
    simulator: Simulator
    calls: StoreCalls  # for all that reads the store or waits for its lock
    timeout_s: float
    allows_partial: bool
    trust: Trust
    table: ExploredTable | None = None  # what people explore by example
    arrivals: Arrivals = field(default_factory=Arrivals)

    def count_offered(
        self, by: Literal["recommend", "forecast"], queries: int, *, trusted: bool
    ) -> None:
        """Count the queries of an answer, unless it depends on somebody's own past."""
        if not (trusted and self.engine.options.personal):
            self.metrics.offered(by, queries)

    def trusts(self, request: Request, user: AboutUser) -> bool:
        """Whether the user of a request is who it says; a wrong signature is an error."""
        by_key: bool = request.state.trusted_users
        return self.trust.of(user.user_id, user.user_signature, by_key=by_key)

    async def answer(self, future: "Future[Answer]") -> Answer:
        """Wait for an answer of the engine without blocking others; it is never cancelled."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.arrivals.of(future)
        except TimeoutError:
            raise StoreUnavailable(
                f"no answer within {self.timeout_s:g} s. Try again with the same request_id."
            ) from None

    async def in_lane(self, step: Callable[[], Answer]) -> Answer:
        """Run a step of an expensive request after the recommendations that wait."""
        return await self.answer(self.engine.lane.submit(step))

    def partial(self, not_searched: int) -> dict[str, bool | int]:
        """Return the fields about arms on unavailable shards, and count such answers."""
        if not_searched:
            self.metrics.shards_missed("partial")
        return {"partial": not_searched > 0, "not_searched": not_searched}


def context_of(request: Request) -> WorkerContext:
    """Return what this application serves."""
    found = request.app.state.served
    assert isinstance(found, WorkerContext)
    return found
