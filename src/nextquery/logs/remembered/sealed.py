"""Bytes that can be read, and changed unnoticed, only with a secret.

::

    magic (8)  check of the secret (16)  nonce (16)  tag (32)  data

The data is masked with SHAKE-256 of the key and the nonce. The nonce is a keyed hash of the data:
equal data gives equal bytes, and no two different ones share a mask. The tag (HMAC-SHA-256) covers
everything before and after it.
"""

import hashlib
import hmac

import numpy as np

from nextquery.errors import Damaged, InvalidInput
from nextquery.logs.remembered.keys import SIZE, Keys

_MAGIC = b"nqledgr1"
_TAG = 32
_HEAD = len(_MAGIC) + 2 * SIZE + _TAG


def sealed(data: bytes, keys: Keys) -> bytes:
    """Return the data as only the same keys can read it.

    >>> keys = Keys("a long secret of the service")
    >>> opened(sealed(b"rows", keys), keys, "the ledger")
    b'rows'
    """
    nonce = keys.whole("nonce", data)[:SIZE]
    start, masked = _MAGIC + _check(keys) + nonce, _masked(data, nonce, keys)
    return start + keys.whole("tag", start + masked) + masked


def opened(content: bytes, keys: Keys, name: str) -> bytes:
    """Return the data; raises an error if the keys are others or the content was changed.

    >>> other = Keys("another secret")
    >>> opened(sealed(b"rows", other), Keys("a long secret of the service"), "the ledger")
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: the ledger was sealed with another user_hash_secret. ...
    """
    start, rest = content[: _HEAD - _TAG], content[_HEAD:]
    if len(content) < _HEAD or not start.startswith(_MAGIC):
        raise Damaged(f"{name} is no ledger. Restore the pool from a backup, or ingest again.")
    if not hmac.compare_digest(start[len(_MAGIC) : -SIZE], _check(keys)):
        raise InvalidInput(
            f"{name} was sealed with another user_hash_secret. Set NEXTQUERY_USER_HASH_SECRET to "
            "the secret of the first ingest, or ingest the whole log again."
        )
    if not hmac.compare_digest(content[_HEAD - _TAG : _HEAD], keys.whole("tag", start + rest)):
        raise Damaged(f"{name} was changed. Restore the pool from a backup, or ingest again.")
    return _masked(rest, start[-SIZE:], keys)


def _check(keys: Keys) -> bytes:
    return keys.whole("check", b"")[:SIZE]


def _masked(data: bytes, nonce: bytes, keys: Keys) -> bytes:
    mask = hashlib.shake_256(keys.whole("mask", nonce)).digest(len(data))
    return (np.frombuffer(data, np.uint8) ^ np.frombuffer(mask, np.uint8)).tobytes()
