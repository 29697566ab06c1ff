"""The log on standard error: one JSON object per line.

It contains no queries and no secrets. An error is logged with its type and its stack; its message,
which may quote a query, only if `log_queries` is set. Every source of lines comes here: the
loggers of all libraries, warnings, and exceptions that nobody catches, in any thread.
"""

import json
import logging
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any

from nextquery.service.http.limits.repeated_lines import RepeatedLines

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
