"""How `ingest` names the people of a log, so that the service recognises them."""

import hashlib
import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nextquery.errors import InvalidInput
from nextquery.logs.cleaning import person_hash
from nextquery.signing import keyed


@dataclass(frozen=True)
class Personal:
    """The secret and the owner of the people in a log.

    Parameters
    ----------
    user_hash_secret : the service's setting of that name. A pool made with another secret knows
        nobody that the service knows.
    owner : the owner of the API keys that will send these users' ids; "" without API keys.
    required : whether a log without users is an error; otherwise nothing is kept of it.

    >>> people = Personal("a long secret of the service")
    >>> people.hash("ann") == people.hash("ann"), people.hash("ann") == people.hash("Ann")
    (True, False)
    """

    user_hash_secret: str = field(repr=False)
    owner: str = ""
    required: bool = True

    def __post_init__(self) -> None:
        if not self.user_hash_secret:
            raise InvalidInput(
                "personal needs the service's user_hash_secret, and received none. Set "
                "NEXTQUERY_USER_HASH_SECRET for ingest and serve to the same long random text."
            )

    def hash(self, user_id: str) -> str | None:
        """Return the keyed hash of a user; None if the id names nobody."""
        return person_hash(self.user_hash_secret, self.owner, user_id)

    def mark(self, made_from: str) -> str:
        """Return the fingerprint of a stage that also depends on the secret and the owner."""
        known = f"{made_from}\0{self.hash('a person')}"
        return hashlib.sha256(known.encode()).hexdigest()

    def named_with(self) -> dict[str, str]:
        """Return what a pool keeps to tell whether a service can recognise its people.

        That is a keyed check value of the secret, and the owner; see `why_unrecognised`.
        """
        return {"secret": _check_value(self.user_hash_secret), "owner": self.owner}


def why_unrecognised(
    named_with: Mapping[str, str], *, user_hash_secret: str, owners: Collection[str] | None = None
) -> str | None:
    """Return why a service cannot recognise the people of a pool, and what to do; None if it can.

    Parameters
    ----------
    named_with : `Personal.named_with` of ingest; empty if that is not known.
    user_hash_secret : that of the service; "" if it has none.
    owners : the owners of the service's API keys, "" for requests without a key; None if unknown.

    >>> shop = Personal("a secret", "shop").named_with()
    >>> why_unrecognised(shop, user_hash_secret="a secret", owners=["shop", "blog"]) is None
    True
    """
    again = "or ingest again with --personal and this service's secret"
    if not user_hash_secret:
        return (
            "this service has no user_hash_secret. Set NEXTQUERY_USER_HASH_SECRET to the secret of "
            f"ingest, with a new store if this one began without it, {again}"
        )
    known = named_with.get("secret")
    if known is not None and not hmac.compare_digest(known, _check_value(user_hash_secret)):
        return (
            "this service's user_hash_secret is not that of ingest. Start with the secret of "
            f"ingest, with a new store if this one began with another, {again}"
        )
    owner = named_with.get("owner")
    if owner is None or owners is None or owner in owners:
        return None
    meant = f"ingest --owner {owner!r}" if owner else "ingest without --owner"
    have = ", ".join(map(repr, sorted(owners)[:5])) if any(owners) else "no owner"
    return (
        f"the pool was made with {meant}, and the API keys of this service have {have}. Create "
        f"keys with --owner {owner!r}, or ingest again with the owner of your keys (nextquery keys "
        "list)"
    )


def _check_value(secret: str) -> str:
    return keyed(secret, "people of a pool", "")
