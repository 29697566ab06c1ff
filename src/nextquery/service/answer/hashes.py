"""Hashes that stand for users, texts and requests in the store."""

import hashlib
import hmac
import json


def keyed(secret: str, purpose: str, text: str) -> str:
    """Hash a text so that it cannot be looked up without the secret.

    >>> keyed("s", "user", "ann") == keyed("s", "user", "ann") != keyed("s", "text", "ann")
    True
    """
    return hmac.new(secret.encode(), f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def request_key(owner: str, request_id: str) -> str:
    """Return the name of a request; the same id of another API key is another request."""
    return hashlib.sha256(f"{owner}\0{request_id}".encode()).hexdigest()


def request_hash(session_id: str, query: str, m: int, user: str | None) -> str:
    """Hash the content of a request, to tell a repetition from another request with its id."""
    content = json.dumps([session_id, query, m, user])
    return hashlib.sha256(content.encode()).hexdigest()
