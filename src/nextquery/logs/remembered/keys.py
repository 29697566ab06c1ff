"""The keyed hashes of a ledger, and locks that only the text they belong to opens."""

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput

SIZE = 16  # bytes of a hash: two of a billion are equal with a chance of one in 10^20
Hashes = NDArray[np.uint8]


class Keys:
    """Hashes under a secret. Without the secret nobody can tell whose or of what they are.

    Parameters
    ----------
    secret : the service's `user_hash_secret`.

    >>> keys = Keys("a long secret of the service")
    >>> keys.of("user", "ann") == keys.of("user", "ann"), keys.of("user", "ann").hex()[:8]
    (True, '9f811608')
    """

    def __init__(self, secret: str) -> None:
        if not secret:
            raise InvalidInput(
                "a ledger needs the service's user_hash_secret, and received none. Set "
                "NEXTQUERY_USER_HASH_SECRET to the same long random text for ingest and serve."
            )
        self._key = hmac.digest(secret.encode(), b"nextquery ledger", "sha256")

    def of(self, what: str, name: str) -> bytes:
        """Return the hash of a name: `what` is ``session``, ``user``, ``spelling`` or ``text``."""
        return self.whole(what, name.encode("utf-8", "surrogatepass"))[:SIZE]

    def whole(self, what: str, data: bytes) -> bytes:
        """Return all 32 bytes of a hash."""
        return hmac.digest(self._key, what.encode() + b"\0" + data, "sha256")

    def many(self, what: str, names: Iterable[str]) -> Hashes:
        """Return the hashes of many names, one per row."""
        return rows_of([self.of(what, name) for name in names])

    def lock(self, text: str, spelling: bytes, shown: str) -> bytes:
        """Encrypt how a query was spelled, so that only somebody with its `text` can read it.

        >>> keys = Keys("a long secret of the service")
        >>> locked = keys.lock("black hole", b"0" * 16, "Black Hole")
        >>> keys.unlock("black hole", b"0" * 16, locked)
        'Black Hole'
        """
        return self._masked(text, spelling, shown.encode())

    def unlock(self, text: str, spelling: bytes, locked: bytes) -> str:
        """Return what `lock` encrypted; `spelling` is the hash of the spelling."""
        return self._masked(text, spelling, locked).decode()

    def _masked(self, text: str, spelling: bytes, data: bytes) -> bytes:
        key = self.whole("lock", spelling + text.encode())
        mask = hashlib.shake_256(key).digest(len(data))
        return bytes(a ^ b for a, b in zip(data, mask, strict=True))


def rows_of(hashes: list[bytes], size: int = SIZE) -> Hashes:
    """Return hashes as rows of bytes.

    >>> rows_of([b"ab", b"cd"], size=2).tolist()
    [[97, 98], [99, 100]]
    """
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, size)
