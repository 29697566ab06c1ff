"""API keys: made once, shown once, kept as salted hashes.

A key reads ``nq_ID_SECRET``. The secret holds 256 random bits, so nobody can guess it and a quick
hash is enough: slow ones protect passwords that people choose.
"""

import hashlib
import hmac
import secrets
import threading
import time
from typing import NamedTuple

from sqlalchemy import insert, select, update

from nextquery.checks import one_of
from nextquery.errors import InvalidInput
from nextquery.service.http.scopes import SCOPES
from nextquery.service.log.schema import keys as table
from nextquery.service.log.store import Store

FRESH_S = 1.0
"""A new key is known, and a revoked one refused, everywhere after so long."""
_AGAIN_S = 0.1  # unknown keys cannot make the store read more often than this


class Key(NamedTuple):
    """What is known of a key; the secret is not."""

    id: str
    name: str
    scope: str
    created: float
    revoked: float | None


class KeyRing:
    """The keys of a store.

    Parameters
    ----------
    store : where they are kept.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Key, str]] = {}
        self._read_at = -1e9

    def create(self, *, name: str, scope: str) -> tuple[Key, str]:
        """A new key and its text, which is never shown again.

        Parameters
        ----------
        name : for people, 1 to 200 characters.
        scope : ``read``, ``write`` (and read) or ``admin`` (and all).
        """
        one_of(scope, "scope", SCOPES)
        if not 0 < len(name) <= 200 or not name.isprintable():
            raise InvalidInput(
                f"a key's name must be 1 to 200 printable characters; received {name!r}."
            )
        key = Key(secrets.token_hex(6), name, scope, time.time(), None)
        secret = secrets.token_urlsafe(32)
        row = {**key._asdict(), "hash": _salted(secret, secrets.token_hex(16))}
        row["scopes"] = row.pop("scope")
        with self._store.writing() as connection:
            connection.execute(insert(table).values(row))
        return key, f"nq_{key.id}_{secret}"

    def list(self) -> list[Key]:
        """Every key ever made, oldest first."""
        return sorted((key for key, _ in self._read().values()), key=lambda key: key.created)

    def revoke(self, id: str) -> Key:
        """Refuse a key from now on; revoking twice changes nothing."""
        with self._store.writing() as connection:
            wanted = (table.c.id == id) & table.c.revoked.is_(None)
            connection.execute(update(table).where(wanted).values(revoked=time.time()))
        known = self._read()
        if id not in known:
            raise InvalidInput(f"there is no key {id!r}. nextquery keys list shows the ids.")
        return known[id][0]

    def has_any(self) -> bool:
        """Whether any key is in force."""
        return any(key.revoked is None for key, _ in self._read().values())

    def stale(self) -> bool:
        """Whether `find` would read the store before it answers."""
        return time.monotonic() - self._read_at > FRESH_S

    def find(self, text: str) -> Key | None:
        """The key in force with this text, or None."""
        parts = text.split("_", 2)
        if len(parts) != 3 or parts[0] != "nq":
            return None
        _, id, secret = parts
        with self._lock:
            age = time.monotonic() - self._read_at
            if age > FRESH_S or (id not in self._known and age > _AGAIN_S):
                self._known = self._read()
                self._read_at = time.monotonic()
        key, hashed = self._known.get(id, (None, ""))
        salt = hashed.partition("$")[0]
        right = hmac.compare_digest(_salted(secret, salt), hashed)
        return key if key is not None and right and key.revoked is None else None

    def _read(self) -> dict[str, tuple[Key, str]]:
        with self._store.reading() as connection:
            rows = connection.execute(select(table)).all()
        return {
            row.id: (Key(row.id, row.name, row.scopes, row.created, row.revoked), row.hash)
            for row in rows
        }


def _salted(secret: str, salt: str) -> str:
    digest = hashlib.sha256(salt.encode() + secret.encode("utf-8", "replace")).hexdigest()
    return f"{salt}${digest}"
