"""Nobody teaches the model alone: a user or session teaches only so much in a day."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.service.log.new_arms.parts import parts
from nextquery.service.log.schema import teaching

_DAY = 24 * 3600


class Caps(NamedTuple):
    """How many decisions of a day teach: of a user, a session, and an owner; 0 means all."""

    user: int = 0
    session: int = 0
    owner: int = 0

    def of(self, owner: str, session_id: str, identity: str | None) -> dict[str, int]:
        """Return the names under which a decision counts, each with its cap.

        Users count by identity, and separately for each owner: nobody can use up the share of
        another application's user of the same name.

        >>> Caps(session=3, owner=9).of("shop", "s-1", None)["owner shop"]
        9
        """
        user = 0 if identity is None else self.user
        named = {
            _user(owner, identity or ""): user,
            _session(owner, session_id): self.session,
            f"owner {owner}": self.owner,
        }
        return {who: cap for who, cap in named.items() if cap}


def names_of(
    sessions: Iterable[tuple[str, str]], identities: Iterable[tuple[str, str]]
) -> Iterator[str]:
    """Yield the names under which sessions and identities count, each given with its owner."""
    for owner, session_id in sessions:
        yield _session(owner, session_id)
    for owner, identity in identities:
        yield _user(owner, identity)


def _user(owner: str, identity: str) -> str:
    return f"user {_hashed(owner, identity)}"


def _session(owner: str, session_id: str) -> str:
    return f"session {_hashed(owner, session_id)}"


def _hashed(owner: str, name: str) -> str:
    return hashlib.sha256(f"{owner}\0{name}".encode()).hexdigest()


@dataclass
class Teaching:
    """The decisions that taught today, by name: read and written once per transaction.

    Parameters
    ----------
    connection : the transaction's, which holds the lock of the log.
    time : the transaction's; a day is a day of UTC.
    """

    connection: sa.Connection
    time: float

    def __post_init__(self) -> None:
        self.day = int(self.time // _DAY)
        self._asked: set[str] = set()
        self._counts: dict[str, int] = {}
        self._stored: set[str] = set()
        self._changed: set[str] = set()

    def fetch(self, names: Iterable[str]) -> None:
        """Read the counts of these names."""
        unasked = set(names) - self._asked
        self._asked |= unasked
        for part in parts(unasked):
            today = (teaching.c.day == self.day, teaching.c.who.in_(part))
            found = sa.select(teaching.c.who, teaching.c.count).where(*today)
            for who, count in self.connection.execute(found):
                self._counts[who] = count
                self._stored.add(who)

    def allows(self, caps: Mapping[str, int]) -> bool:
        """Return whether a decision teaches, and count it; not if a name of it reached its cap."""
        self.fetch(caps)
        if any(self._counts.get(who, 0) >= cap for who, cap in caps.items()):
            return False
        for who in caps:
            self._counts[who] = self._counts.get(who, 0) + 1
            self._changed.add(who)
        return True

    def flush(self) -> None:
        """Write the counts, and delete those from before yesterday.

        Those of other days near today stay: the clocks of two workers may differ at midnight.
        """
        new = sorted(self._changed - self._stored)
        grown = sorted(self._changed & self._stored)
        if new:
            self.connection.execute(sa.delete(teaching).where(teaching.c.day < self.day - 1))
            rows = [{"day": self.day, "who": who, "count": self._counts[who]} for who in new]
            self.connection.execute(sa.insert(teaching), rows)
        if grown:
            values = [{"name": who, "now": self._counts[who]} for who in grown]
            self.connection.execute(
                sa.update(teaching)
                .where(teaching.c.day == self.day, teaching.c.who == sa.bindparam("name"))
                .values(count=sa.bindparam("now")),
                values,
            )
        self._stored |= self._changed
        self._changed = set()
