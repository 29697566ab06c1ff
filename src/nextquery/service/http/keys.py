"""API keys: shown once when they are created, stored as salted hashes.

A key looks like ``nq_ID_SECRET``. The secret has 256 random bits and cannot be guessed, so a fast
hash is enough: slow hashes protect passwords that people choose.
"""

import hashlib
import hmac
import math
import secrets
import time
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from nextquery.checks import number, one_of
from nextquery.errors import InvalidInput
from nextquery.service.http.responses import SCOPES
from nextquery.service.log.schema import LONGEST_KEY_NAME
from nextquery.service.log.schema import keys as table
from nextquery.service.log.store import Store

FRESH_S = 1.0
"""Seconds until every worker knows a new key and rejects a revoked one."""


class Key(NamedTuple):
    """A key without its secret.

    `owner` is whose sessions it works on; keys of one application share it. `trusted_users`: the
    `user_id` of its requests is trusted without a signature. `revoked`: when the key ends, or
    ended.
    """

    id: str
    name: str
    scope: str
    created: float
    revoked: float | None
    owner: str
    trusted_users: bool = False

    @property
    def valid(self) -> bool:
        """Whether requests may use it now."""
        return self.revoked is None or self.revoked > time.time()


def check_new_key(*, name: str, scope: str, owner: str | None) -> None:
    """Raise an error unless a key may be created like this; see `KeyRing.create`."""
    one_of(scope, "scope", SCOPES)
    if not 0 < len(name) <= LONGEST_KEY_NAME or not name.isprintable():
        raise InvalidInput(
            f"the name of a key must have 1 to {LONGEST_KEY_NAME} printable characters; "
            f"received {name!r}."
        )
    if owner is not None and (len(owner) > LONGEST_KEY_NAME or not owner.isprintable()):
        raise InvalidInput(
            f"the owner of a key must have up to {LONGEST_KEY_NAME} printable characters; "
            f"received {owner!r}."
        )


class KeyRing:
    """The keys of a store.

    They are read at most once in `FRESH_S`, whatever clients send: an unknown key is answered from
    memory like a known one.

    Parameters
    ----------
    store : where they are stored.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[Key, str]] = {}
        self._read_at = -math.inf

    def create(
        self, *, name: str, scope: str, owner: str | None = None, trusted_users: bool = False
    ) -> tuple[Key, str]:
        """Create a key; return it and its text, which is never shown again.

        Parameters
        ----------
        name : a description, 1 to 200 characters.
        scope : ``read``, ``write`` (and read) or ``admin`` (and all).
        owner : the application that the key belongs to, up to 200 characters; by default the key is
            an owner of its own. Keys of different owners see nothing of each other's sessions. An
            empty text is the owner of sessions recorded without a key.
        trusted_users : whether the `user_id` of its requests is trusted. Only for the key of a back
            end that knows who is logged in; never for one that a browser has.
        """
        check_new_key(name=name, scope=scope, owner=owner)
        id = secrets.token_hex(6)
        owner_id = id if owner is None else owner
        key = Key(id, name, scope, time.time(), None, owner_id, trusted_users)
        with self._store.writing() as connection:
            text = _insert(connection, key)
        self._read_at = -math.inf
        return key, text

    def rotate(self, id: str, *, overlap_s: float) -> tuple[Key, str]:
        """Replace a key: create one like it, and let the old one end after `overlap_s` seconds.

        Returns the new key and its text. Both happen in one transaction.
        """
        number(overlap_s, "overlap_s", low=0)
        old = self._of(id)
        if not old.valid:
            raise InvalidInput(
                f"key {id} has ended. Create a new one: nextquery keys create NAME --scope "
                f"{old.scope} --owner {old.owner!r}."
            )
        now = time.time()
        new = old._replace(id=secrets.token_hex(6), created=now, revoked=None)
        with self._store.writing() as connection:
            text = _insert(connection, new)
            _end(connection, id, now + overlap_s)
        self._read_at = -math.inf
        return new, text

    def list(self) -> list[Key]:
        """Return every key ever created, oldest first."""
        return sorted((key for key, _ in self._read().values()), key=lambda key: key.created)

    def revoke(self, id: str) -> Key:
        """Revoke a key; revoking it twice changes nothing."""
        with self._store.writing() as connection:
            _end(connection, id, time.time())
        self._read_at = -math.inf
        return self._of(id)

    def _of(self, id: str) -> Key:
        known = self._read()
        if id not in known:
            raise InvalidInput(f"there is no key {id!r}. Run nextquery keys list to see the ids.")
        return known[id][0]

    def has_any(self) -> bool:
        """Whether there is a key that is not revoked."""
        return any(key.valid for key, _ in self._read().values())

    def owners(self) -> set[str]:
        """Return the owners of all keys that are not revoked."""
        return {key.owner for key, _ in self._read().values() if key.valid}

    def stale(self) -> bool:
        """Whether `find` would read the store."""
        return time.monotonic() - self._read_at > FRESH_S

    def refresh(self) -> None:
        """Read the keys from the store."""
        began = time.monotonic()
        self._known = self._read()
        self._read_at = began

    def find(self, text: str) -> Key | None:
        """Return the key with this text, or None if it is unknown or revoked."""
        if self.stale():
            self.refresh()
        return self.known(text)

    def known(self, text: str) -> Key | None:
        """Return what `find` returns, as of the last `refresh`; the store is not read."""
        parts = text.split("_", 2)
        if len(parts) != 3 or parts[0] != "nq":
            return None
        _, id, secret = parts
        key, hashed = self._known.get(id, (None, ""))
        salt = hashed.partition("$")[0]
        matches = hmac.compare_digest(_salted(secret, salt), hashed)
        return key if key is not None and matches and key.valid else None

    def _read(self) -> dict[str, tuple[Key, str]]:
        with self._store.reading() as connection:
            rows = connection.execute(select(table)).all()
        return {
            row.id: (
                Key(
                    row.id,
                    row.name,
                    row.scopes,
                    row.created,
                    row.revoked,
                    row.owner,
                    row.trusted_users,
                ),
                row.hash,
            )
            for row in rows
        }


def _insert(connection: Connection, key: Key) -> str:
    """Write a key with a new secret; return its text."""
    secret = secrets.token_urlsafe(32)
    row = {**key._asdict(), "hash": _salted(secret, secrets.token_hex(16))}
    row["scopes"] = row.pop("scope")
    connection.execute(insert(table).values(row))
    return f"nq_{key.id}_{secret}"


def _end(connection: Connection, id: str, when: float) -> None:
    """Let a key end then, unless it ends sooner."""
    later = table.c.revoked.is_(None) | (table.c.revoked > when)
    connection.execute(update(table).where((table.c.id == id) & later).values(revoked=when))


def _salted(secret: str, salt: str) -> str:
    digest = hashlib.sha256(salt.encode() + secret.encode("utf-8", "replace")).hexdigest()
    return f"{salt}${digest}"
