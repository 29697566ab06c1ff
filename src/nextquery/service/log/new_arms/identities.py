"""Identities: user ids that ever shared a session count as one person.

Someone who searches under a cookie's id and then logs in has two ids, and must not satisfy a rule
about two users. So users and sessions are joined as decisions come in, in the transaction that
records them: whatever is joined, directly or through others, is one identity.
"""

from collections.abc import Iterable

import sqlalchemy as sa

from nextquery.service.log.new_arms.parts import parts
from nextquery.service.log.schema import identities


class Identities:
    """The identities that one transaction needs. Names are the keyed hashes of users and sessions.

    Parameters
    ----------
    connection : the transaction's, which holds the lock of the log.
    time : the transaction's, when new names are first seen.
    """

    def __init__(self, connection: sa.Connection, time: float = 0.0) -> None:
        self._connection, self._time = connection, time
        self._asked: set[str] = set()
        self._known: dict[str, str] = {}
        self._new: dict[str, str] = {}  # not yet in the table

    def fetch(self, names: Iterable[str]) -> None:
        """Read the identities of these names, in one go."""
        unasked = set(names) - self._asked
        self._asked |= unasked
        for part in parts(unasked):
            columns = (identities.c.name, identities.c.identity)
            found = sa.select(*columns).where(identities.c.name.in_(part))
            for name, identity in self._connection.execute(found):
                self._known[name] = identity

    def of(self, name: str) -> str:
        """Return the identity of a fetched name; a new name is its own."""
        return self._known.get(name, name)

    def join(self, user: str, session: str) -> None:
        """This user was seen in this session."""
        self.fetch((user, session))
        one, other = self.of(user), self.of(session)
        if one != other and user in self._known and session in self._known:
            self._merge(min(one, other), max(one, other))
        identity = self.of(user if user in self._known else session)
        for name in (user, session):
            if name not in self._known:
                self._known[name] = self._new[name] = identity

    def _merge(self, kept: str, gone: str) -> None:
        self.flush()
        rows = sa.update(identities).where(identities.c.identity == gone)
        self._connection.execute(rows.values(identity=kept))
        for name, identity in self._known.items():
            if identity == gone:
                self._known[name] = kept

    def flush(self) -> None:
        """Write the names that are new."""
        if self._new:
            rows = [
                {"name": name, "identity": identity, "time": self._time}
                for name, identity in self._new.items()
            ]
            self._connection.execute(sa.insert(identities), rows)
            self._new = {}
