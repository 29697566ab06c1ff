"""When a typed query becomes an arm, and how much one person may teach in a day.

A text becomes an arm after enough distinct people have typed it. People are identities in
distinct sessions. A text becomes an arm once: after that, whatever happens to the arm, its row in
`arm_texts` keeps it from becoming one again.

*Identities.* User ids that ever shared a session count as one person. Someone who searches under
a cookie's id and then logs in has two ids, and must not satisfy a rule about two users. So users
and sessions are joined as decisions come in, in the transaction that records them. All ids that
are joined, directly or through others, are one identity.

*Caps.* No single user or session dominates the model: each teaches only so much in a day.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from nextquery.segments import key_of, segment_of
from nextquery.service.log.events import ArmAdded, ArmHeld, parts
from nextquery.service.log.schema import arm_texts, identities, sightings, teaching

if TYPE_CHECKING:
    from nextquery.service.log.writer import Transaction


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

    def _merge(self, kept: str, merged: str) -> None:
        self.flush()
        rows = sa.update(identities).where(identities.c.identity == merged)
        self._connection.execute(rows.values(identity=kept))
        for name, identity in self._known.items():
            if identity == merged:
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


_HOUR = 3600


@dataclass(frozen=True)
class Sighting:
    """A user typed a query that is not an arm; with all that is needed if it becomes one."""

    text_key: str
    user_hash: str
    text: str
    shown: str
    vector: str
    model: int | None = None  #: position of the model when the vector was computed


@dataclass
class NewArmRules:
    """How many people make an arm, how many arms an owner gets in an hour, and who decides.

    `capped` counts the sightings that would have made an arm but for `per_hour`.
    """

    min_users: int = 2
    per_hour: int = 60
    review: bool = False
    capped: int = 0


class TypedTexts:
    """What is known, in one transaction, about typed texts that are not arms."""

    def __init__(self, connection: sa.Connection, time: float) -> None:
        self._connection, self._time = connection, time
        self.settled: set[str] = set()  # became arms, are held, or may never be arms
        self.seen: dict[str, dict[str, str]] = {}  # users of a text, with their session
        self._new: dict[tuple[str, str], str] = {}  # not yet in the table

    def fetch(self, text_keys: Iterable[str]) -> set[str]:
        """Read what is known about these texts, in one go; return the users who typed them."""
        users = set()
        for part in parts(text_keys):
            settled = sa.select(arm_texts.c.text_key).where(arm_texts.c.text_key.in_(part))
            self.settled.update(self._connection.execute(settled).scalars())
            undecided = [key for key in part if key not in self.settled]
            columns = (sightings.c[name] for name in ("text_key", "user_hash", "session_key"))
            typed = sa.select(*columns).where(sightings.c.text_key.in_(undecided))
            for text_key, user_hash, session in self._connection.execute(typed):
                self.seen.setdefault(text_key, {})[user_hash] = session
                users.add(user_hash)
        return users

    def add(self, text_key: str, user_hash: str, session: str) -> None:
        """A user typed a text in a session. Only the first session of a user is kept."""
        users = self.seen.setdefault(text_key, {})
        if user_hash not in users:
            users[user_hash] = self._new[text_key, user_hash] = session

    def settle(self, text_key: str) -> None:
        """Count no more: the text is an arm, or held. Who typed it stays in the table."""
        self.seen.pop(text_key, None)
        self.settled.add(text_key)

    def flush(self) -> None:
        """Write the sightings that are new."""
        if self._new:
            rows = [
                {
                    "text_key": text_key,
                    "user_hash": user_hash,
                    "session_key": session,
                    "time": self._time,
                }
                for (text_key, user_hash), session in self._new.items()
            ]
            self._connection.execute(sa.insert(sightings), rows)
            self._new = {}


def record_sighting(
    transaction: "Transaction", sighting: Sighting, rules: NewArmRules, *, owner: str, session: str
) -> None:
    """Remember who typed a query in which session; make it an arm if enough people now have."""
    texts, text_key = transaction.texts, sighting.text_key
    if text_key in texts.settled:
        return
    if not _enough(transaction, text_key, rules):
        texts.add(text_key, sighting.user_hash, session)
        if not _enough(transaction, text_key, rules):
            return
    if _made_this_hour(transaction, owner) >= rules.per_hour:
        rules.capped += 1
        return
    texts.settle(text_key)
    arm = None if rules.review else transaction.take_arm_id()
    vector = transaction.vector(sighting.vector, sighting.model)
    if arm is None:
        transaction.append(ArmHeld(sighting.text, sighting.shown, vector))
    else:
        transaction.append(ArmAdded(arm, sighting.text, sighting.shown, vector))
    row = sa.insert(arm_texts).values(
        text_key=text_key,
        shown=key_of(segment_of(sighting.text), sighting.shown),
        state="held" if arm is None else "added",
        arm=arm,
        owner=owner,
        qualified=transaction.time,
        time=transaction.time,
        min_users=rules.min_users,
    )
    transaction.connection.execute(row)


def _enough(transaction: "Transaction", text_key: str, rules: NewArmRules) -> bool:
    """Whether enough identities typed the text, each in a session of its own."""
    seen = transaction.texts.seen.get(text_key, {})
    people = {transaction.identities.of(user) for user in seen}
    return min(len(people), len(set(seen.values()))) >= rules.min_users


def _made_this_hour(transaction: "Transaction", owner: str) -> int:
    since = transaction.time // _HOUR * _HOUR
    made = (arm_texts.c.owner == owner, arm_texts.c.qualified >= since)
    count = sa.select(sa.func.count()).select_from(arm_texts).where(*made)
    return int(transaction.connection.execute(count).scalar_one())


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
