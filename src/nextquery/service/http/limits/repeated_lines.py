"""Limits on repeated log lines: an attack must not fill the disk."""

import logging
import threading
import time
from collections.abc import Callable

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
