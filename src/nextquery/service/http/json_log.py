"""The log on standard error: one JSON object per line.

It contains no queries and no secrets. An error is logged with its type and its stack; its message,
which may quote a query, only if `log_queries` is set.
"""

import json
import logging
import sys
import time
import traceback

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
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = described(record.exc_info[1], messages=self._messages)
        return json.dumps(fields, default=str)


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
    """Send the logs of the service and its server to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(messages=messages))
    for name in ("nextquery", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.error").setLevel(max(logging.WARNING, LOGGER.getEffectiveLevel()))
