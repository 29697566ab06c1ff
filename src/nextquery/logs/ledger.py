"""The ledger: the rows of a log with keyed hashes for names, in a sealed file.

It records who asked what and when. Each name is a keyed hash, and a lock that only the original
text opens. To read the sealed bytes, or to change them without detection, you need the secret.

::

    magic (8)  check of the secret (16)  nonce (16)  tag (32)  data

The data is masked with SHAKE-256 of the key and the nonce. The nonce is a keyed hash of the data:
equal data gives equal bytes, and no two different ones share a mask. The tag (HMAC-SHA-256)
covers everything before and after it.
"""

import hashlib
import hmac
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import Damaged, InvalidInput

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


Ids = NDArray[np.int64]
NAMED = 32  # bytes of `Personal.hash`


class Strings(Sequence[bytes]):
    """Byte strings in one array, with offsets.

    >>> list(Strings.of([b"ab", b"", b"c"]))
    [b'ab', b'', b'c']
    """

    def __init__(self, data: NDArray[np.uint8], offsets: Ids) -> None:
        self.data, self.offsets = data, offsets

    @classmethod
    def of(cls, strings: Iterable[bytes]) -> "Strings":
        """Put strings into one array."""
        known = list(strings)
        offsets = np.append(0, np.cumsum([len(string) for string in known])).astype(np.int64)
        return cls(np.frombuffer(b"".join(known), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes()


@dataclass(frozen=True)
class Ledger:
    """All rows of a log, also those that no session of the pool has.

    No query can be read in it, with two exceptions: texts that enough users issued but that are
    no arms (`plain`), because no session with them is long enough or the encoder knows none of
    their words. A `locked` spelling can be read with its text (see `Keys.lock`).
    """

    row_session: Ids  #: number of the session id; -1: none
    row_user: Ids  #: number of the user; -1: none
    row_time: NDArray[np.float64]  #: NaN: unknown
    row_spelling: Ids
    row_hits: Ids  #: number of results; -1: unknown
    row_foreign: NDArray[np.bool_]  #: whether its session was in another language
    sessions: Hashes
    users: Hashes
    named: Hashes  #: `Personal.hash` of the users, with --personal; zeros: none
    spellings: Hashes
    spelling_text: Ids  #: -1: it was dropped
    spelling_dropped: NDArray[np.str_]  #: the rule that dropped it; "" if none
    spelling_why: NDArray[np.str_]  #: the pattern of private text that it matches; "" if none
    spelling_wide: NDArray[np.bool_]  #: whether that pattern removes every spelling of its text
    locked: Strings
    texts: Hashes
    plain: Strings = field(default_factory=lambda: Strings.of([]))  #: empty for all others

    def __len__(self) -> int:
        return len(self.row_spelling)

    @property
    def timed(self) -> bool:
        """Whether any row has a time."""
        return bool(np.isfinite(self.row_time).any())

    @property
    def by_user(self) -> bool:
        """Whether any row has a user."""
        return len(self.users) > 0

    @property
    def waiting(self) -> list[str]:
        """The texts that may become arms."""
        return [text.decode() for text in self.plain if text]

    def without_plain(self, texts: Iterable[str]) -> "Ledger":
        """Return the ledger without these texts: they are arms."""
        arms = {text.encode() for text in texts}
        return replace(self, plain=Strings.of(b"" if t in arms else t for t in self.plain))

    def knows(self, user: bytes) -> bool:
        """Whether any row is of a user, given by the hash."""
        return any(row.tobytes() == user for row in self.users)

    def others(self, user: bytes) -> dict[bytes, int]:
        """Return the hashes of the texts that a user issued, and how many others issued each."""
        number = [row.tobytes() for row in self.users].index(user)
        text = self.spelling_text[self.row_spelling]
        theirs = np.unique(text[(self.row_user == number) & (text >= 0)])
        counted = (text >= 0) & (self.row_user >= 0) & (self.row_user != number)
        counted &= ~self.row_foreign & (self.spelling_why[self.row_spelling] == "")
        pairs = np.unique(np.stack([text[counted], self.row_user[counted]]), axis=1)
        count = np.bincount(pairs[0], minlength=len(self.texts))
        return {self.texts[at].tobytes(): int(count[at]) for at in theirs.tolist()}

    def without_user(self, user: bytes, min_users: int) -> "Ledger":
        """Return the ledger without the sessions of a user, and what only those had.

        What fewer than `min_users` others issued is in words no more.
        """
        number = [row.tobytes() for row in self.users].index(user)
        mine = self.row_user == number
        theirs = np.unique(self.row_session[mine & (self.row_session >= 0)])
        rows = ~(mine | np.isin(self.row_session, theirs))
        sessions, row_session = _kept(self.row_session[rows], len(self.sessions))
        users, row_user = _kept(self.row_user[rows], len(self.users))
        spellings, row_spelling = _kept(self.row_spelling[rows], len(self.spellings))
        texts, spelling_text = _kept(self.spelling_text[spellings], len(self.texts))
        text_of = np.append(spelling_text, -1)[row_spelling]
        known = (text_of >= 0) & (row_user >= 0)
        pairs = np.unique(np.stack([text_of[known], row_user[known]]), axis=1)
        enough = np.bincount(pairs[0], minlength=len(texts)) >= min_users
        plain = (self.plain[place] for place in texts.tolist())
        return Ledger(
            row_session=row_session,
            row_user=row_user,
            row_time=self.row_time[rows],
            row_spelling=row_spelling,
            row_hits=self.row_hits[rows],
            row_foreign=self.row_foreign[rows],
            sessions=self.sessions[sessions],
            users=self.users[users],
            named=self.named[users] if len(self.named) else self.named,
            spellings=self.spellings[spellings],
            spelling_text=spelling_text,
            spelling_dropped=self.spelling_dropped[spellings],
            spelling_why=self.spelling_why[spellings],
            spelling_wide=self.spelling_wide[spellings],
            locked=Strings.of(self.locked[place] for place in spellings.tolist()),
            texts=self.texts[texts],
            plain=Strings.of(
                text if kept else b"" for text, kept in zip(plain, enough.tolist(), strict=True)
            ),
        )

    def to_bytes(self, keys: Keys) -> bytes:
        """Return the sealed file."""
        arrays: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Strings):
                arrays |= {item.name: value.data, f"{item.name}_offsets": value.offsets}
            else:
                arrays[item.name] = value
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        return sealed(buffer.getvalue(), keys)

    @classmethod
    def from_bytes(cls, content: bytes, keys: Keys, name: str) -> "Ledger":
        """Open the file that `to_bytes` wrote; `name` is named in errors."""
        data = opened(content, keys, name)
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                known = dict(arrays)
            for strings in ("locked", "plain"):
                known[strings] = Strings(known[strings], known.pop(f"{strings}_offsets"))
            return cls(**{item.name: known[item.name] for item in fields(cls)})
        except (KeyError, ValueError, zipfile.BadZipFile) as error:
            raise Damaged(
                f"{name} cannot be read ({type(error).__name__}). Restore the pool from a backup, "
                "or ingest the whole log again."
            ) from error

    def named_users(self, names: Iterable[str | None]) -> "Ledger":
        """Return the ledger with the keyed names of its users (`Personal.hash`)."""
        rows = [bytes(NAMED) if name is None else bytes.fromhex(name) for name in names]
        return replace(self, named=rows_of(rows, NAMED))


def _kept(numbers: Ids, size: int) -> tuple[Ids, Ids]:
    """Return which numbers below `size` still occur, and the given ones counted among those.

    >>> [row.tolist() for row in _kept(np.array([4, -1, 2, 4]), 5)]
    [[2, 4], [1, -1, 0, 1]]
    """
    used = np.unique(numbers[numbers >= 0])
    places = np.full(size + 1, -1, np.int64)  # the last one is that of -1
    places[used] = np.arange(len(used))
    return used, places[numbers]
