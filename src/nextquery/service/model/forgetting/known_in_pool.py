"""Whether a pool knows a person, under which hashes, and what of them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.arms.origin import Origin
from nextquery.build.ingest import why_unrecognised
from nextquery.errors import InvalidInput
from nextquery.logs.cleaning import person_hash
from nextquery.logs.ledger import Keys, Ledger


class InPool(NamedTuple):
    """Under which hashes a pool may know a user: of its people, and in its ledger."""

    person: str | None = None
    row: bytes | None = None
    keys: Keys | None = None


def user_in(
    pool: ArmPool, user_id: str, user_hash_secret: str, owner: str | None = None
) -> InPool | None:
    """Return the hashes under which a pool would know a user; None if it knows nobody.

    `owner` is whose user is meant; None: whoever the owner of the pool's users is. A service with
    another secret than that of ingest cannot find anybody, which is an error.
    """
    origin = pool.origin
    if origin is None or (not origin.people and origin.ledger is None):
        return None
    of_pool = origin.named_with.get("owner", "")
    if owner not in (None, of_pool):
        return None
    person = None
    if origin.people:
        why = why_unrecognised(origin.named_with, user_hash_secret=user_hash_secret)
        if why is not None:
            raise InvalidInput(f"the pool has people's own pasts, and cannot be searched: {why}.")
        person = person_hash(user_hash_secret, of_pool, user_id)
    if origin.ledger is None:
        return InPool(person)
    keys = Keys(user_hash_secret)
    return InPool(person, keys.of("user", user_id.strip()), keys)


def can_search(pool: ArmPool, user_hash_secret: str) -> bool:
    """Whether a service with this secret can find a user in a pool, or nobody could."""
    try:
        user = user_in(pool, "anybody", user_hash_secret)
        if user is not None and pool.origin is not None:
            ledger_of(pool.origin, user, "the ledger of the pool")
    except InvalidInput:
        return False
    return True


def sessions_of(pool: ArmPool, user: InPool) -> list[dict[str, Any]]:
    """Return the sessions of a person in a pool, as JSON values."""
    origin = pool.origin
    if origin is None or user.person not in origin.people:
        return []
    theirs = origin.sessions.take(np.flatnonzero(whose(origin, user.person)[1]))
    times = theirs.asked if len(theirs.asked) else np.full(len(theirs.arms), np.nan)
    return [
        {
            "queries": [
                {"text": pool.shown(arm), "time": None if np.isnan(time) else time}
                for arm, time in zip(
                    theirs.arms[start:end].tolist(), times[start:end].tolist(), strict=True
                )
            ]
        }
        for start, end in zip(theirs.offsets[:-1], theirs.offsets[1:], strict=True)
    ]


def ledger_of(origin: Origin, user: InPool, name: str) -> Ledger | None:
    """Return what a pool remembers of its rows; None if it has no ledger. `name` is for errors."""
    if origin.ledger is None or user.keys is None:
        return None
    content = origin.ledger if isinstance(origin.ledger, bytes) else origin.ledger.read_bytes()
    return Ledger.from_bytes(content, user.keys, name)


def whose(origin: Origin, person: str | None) -> tuple[list[int], NDArray[np.bool_]]:
    """Return the number of a person, and which sessions are theirs."""
    numbers = [number for number, name in enumerate(origin.people) if name == person]
    return numbers, np.isin(origin.sessions.people, numbers)
