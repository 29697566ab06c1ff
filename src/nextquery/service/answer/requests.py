"""What is asked of the engine, checked before anything is done with it."""

import hashlib
import hmac
import json
import unicodedata
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from nextquery.checks import whole_number
from nextquery.errors import InvalidInput

LONGEST_ID, LONGEST_QUERY = 256, 2000


@dataclass(eq=False)
class Asked:
    """One request under way."""

    kind: str  #: "recommend", "forecast", "map" or "feedback"
    future: "Future[Any]"
    session_id: str = ""
    query: str = ""
    m: int = 5
    user_hash: str | None = None
    request_key: str | None = None
    request_hash: str | None = None
    fallback: bool = False  #: answer without the model
    known: tuple[str, str] | None = None  #: the decision that this request id had before
    decision_id: str = field(default_factory=lambda: uuid4().hex)
    accepted: int | None = None
    trail: list[str] = field(default_factory=list)  #: queries to place on a map
    tries: int = 0
    handed_on: bool = False  #: the writer will answer it


def an_id(value: Any, name: str) -> str:
    """An id as callers give it: a short text without control characters."""
    if not isinstance(value, str) or not value or len(value) > LONGEST_ID or _strange(value):
        raise InvalidInput(
            f"{name} must be a text of 1 to {LONGEST_ID} characters without control characters; "
            f"received {value if not isinstance(value, str) else value[:40]!r}."
        )
    return value


def a_query(value: Any, name: str = "query") -> str:
    """A query as people type it."""
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > LONGEST_QUERY
        or any("\ud800" <= sign <= "\udfff" for sign in value)
    ):
        raise InvalidInput(
            f"{name} must be a text of 1 to {LONGEST_QUERY} characters, not blank and in valid "
            f"Unicode; received {value if not isinstance(value, str) else ascii(value[:40])}."
        )
    return value


def a_slate_length(m: Any, most: int) -> int:
    """How many recommendations are asked for."""
    if whole_number(m, "m", at_least=1) > most:
        raise InvalidInput(f"m must be at most {most}; received {m}.")
    return int(m)


def keyed(secret: str, purpose: str, text: str) -> str:
    """A hash that nobody without the secret can look texts up by.

    >>> keyed("s", "user", "ann") == keyed("s", "user", "ann") != keyed("s", "text", "ann")
    True
    """
    return hmac.new(secret.encode(), f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def request_key(owner: str, request_id: str) -> str:
    """The name of a request, apart for every owner of a key."""
    return hashlib.sha256(f"{owner}\0{request_id}".encode()).hexdigest()


def request_hash(session_id: str, query: str, m: int, user: str | None) -> str:
    """What a request asked, to tell a repetition from another request of the same name."""
    said = json.dumps([session_id, query, m, user])
    return hashlib.sha256(said.encode()).hexdigest()


def _strange(text: str) -> bool:
    return any(unicodedata.category(sign) in ("Cc", "Cs") for sign in text)
