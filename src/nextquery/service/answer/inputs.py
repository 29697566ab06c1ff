"""Checks on what callers send: the same for the library and the HTTP routes."""

import re
from collections.abc import Sequence
from typing import Any

from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.service.log.schema import LONGEST_ID, LONGEST_QUERY, LONGEST_TRAIL, MOST_TRAIL

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_NEW_LINE = re.compile(r"[\t\n\r\u2028\u2029]")
# Invisible characters and those that reverse text would let one query look like another.
_INVISIBLE = re.compile(r"[\u200b\u2060\ufeff\u202a-\u202e\u2066-\u2069]")


def check_id(value: Any, name: str) -> str:
    """Return an id: a short text without control characters."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= LONGEST_ID
        or _CONTROL.search(value)
        or _NEW_LINE.search(value)
    ):
        raise InvalidInput(
            f"{name} must be a text of 1 to {LONGEST_ID} characters without control characters "
            f"or new lines; received {_quoted(value)}."
        )
    return value


def check_query(value: Any, name: str = "query") -> str:
    """Return a query as people type it, without invisible characters."""
    text = _INVISIBLE.sub("", value) if isinstance(value, str) else ""
    if not text.strip() or len(value) > LONGEST_QUERY or _CONTROL.search(text):
        raise InvalidInput(
            f"{name} must be a text of 1 to {LONGEST_QUERY} characters, not blank and without "
            f"control characters; received {_quoted(value)}."
        )
    return text


def check_trail(texts: Sequence[str]) -> list[str]:
    """Return the earlier queries of a map; placing each one takes milliseconds."""
    size = sum(map(len, texts))
    if len(texts) > MOST_TRAIL or size > LONGEST_TRAIL:
        raise InvalidInput(
            f"trail may have at most {MOST_TRAIL} queries with {LONGEST_TRAIL} characters "
            f"together; received {len(texts)} with {size}. Leave out the oldest."
        )
    return [check_query(text, "trail") for text in texts]


def check_slate_length(m: Any, most: int) -> int:
    """Return how many recommendations to make."""
    return whole_number(m, "m", at_least=1, at_most=most)


def check_hits(value: Any) -> int | None:
    """Return how many results a query had; None if it is not known."""
    return None if value is None else whole_number(value, "hits", at_least=0)


def check_at_least(value: Any, default: float) -> float:
    """Return the least probability of what is offered; None means the default."""
    return default if value is None else number(value, "at_least", low=0, high=1)


def _quoted(value: Any) -> str:
    return ascii(value[:40]) if isinstance(value, str) else repr(value)[:40]
