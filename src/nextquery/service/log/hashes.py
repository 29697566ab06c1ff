"""Hashes that stand for users, sessions, texts and requests in the store.

Users are hashed with `user_hash_secret`, which an operator may share between stores. Everything
else is hashed with the store's own secret, so that all services on a store agree.
"""

import hashlib
import hmac
import json
from dataclasses import dataclass, field

import sqlalchemy as sa

from nextquery.errors import InvalidInput
from nextquery.logs.cleaning import normalised_user, one_spelling, person_hash
from nextquery.service.log.schema import counter
from nextquery.service.log.store import Store
from nextquery.signing import keyed


def session_key(secret: str, owner: str, session_id: str) -> str:
    """Return the name of a session; the same id of another owner is another session.

    Spellings of one id are one session here, as they are for users: this name only serves to find
    out who is the same person.
    """
    return keyed(secret, "session", f"{owner}\0{one_spelling(session_id)}")


def request_key(owner: str, request_id: str) -> str:
    """Return the name of a request; the same id of another owner is another request."""
    return hashlib.sha256(f"{owner}\0{request_id}".encode()).hexdigest()


def request_hash(
    session_id: str,
    query: str,
    m: int,
    user: str | None,
    person: str | None = None,
    at_least: float | None = None,
    segment: str = "",
) -> str:
    """Hash the content of a request, to tell a repetition from another request with its id.

    Who is trusted to be a person is part of it: the answer may hold what only they may see.
    """
    content = json.dumps([session_id, query, m, user, person, at_least, segment])
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Hashes:
    """The hashes of one store.

    >>> hashes = Hashes("of users", "of the store")
    >>> hashes.user("u9") == hashes.user(" U9 "), hashes.user("null")
    (True, None)
    """

    user_secret: str = field(repr=False)
    store_secret: str = field(repr=False)

    @classmethod
    def of(cls, store: Store, user_hash_secret: str) -> "Hashes":
        """Return the hashes of a store, which accepts only the secret that it began with.

        With another secret, the same user would count as two.
        """
        with store.reading() as connection:
            row = connection.execute(sa.select(counter.c.secret, counter.c.user_secret)).one()
        used = keyed(row.secret, "user_hash_secret", user_hash_secret)
        if row.user_secret is None:
            first = sa.update(counter).where(counter.c.user_secret.is_(None))
            with store.writing() as connection:
                connection.execute(first.values(user_secret=used))
                known = connection.execute(sa.select(counter.c.user_secret)).scalar_one()
        else:
            known = row.user_secret
        if not hmac.compare_digest(known, used):
            given = "another user_hash_secret" if user_hash_secret else "no user_hash_secret"
            raise InvalidInput(
                f"{store.name} is used with one user_hash_secret, and this service has {given}, so "
                "one user would count as two. Start with the secret that the store began with "
                "(the setting user_hash_secret; leave it out if there was none), or pass a new "
                "store."
            )
        return cls(user_hash_secret or row.secret, row.secret)

    def user(self, user_id: str) -> str | None:
        """Return the hash of a user id; None if the id names nobody."""
        name = normalised_user(user_id)
        return None if name is None else keyed(self.user_secret, "user", name)

    def person(self, owner: str, user_id: str) -> str | None:
        """Return the hash of a person with an own past; None if the id names nobody."""
        return person_hash(self.user_secret, owner, user_id)

    def text(self, text: str) -> str:
        """Return the key of a cleaned text."""
        return keyed(self.store_secret, "text", text)
