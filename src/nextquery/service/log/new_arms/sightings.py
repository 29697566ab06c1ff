"""When a typed query becomes an arm: after enough distinct people have typed it.

People are identities (see `identities`) in distinct sessions. A text becomes an arm once: after
that, whatever happens to the arm, its row in `arm_texts` keeps it from becoming one again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from nextquery.segments import key_of, segment_of
from nextquery.service.log.events import ArmAdded, ArmHeld
from nextquery.service.log.new_arms.parts import parts
from nextquery.service.log.schema import arm_texts, sightings

if TYPE_CHECKING:
    from nextquery.service.log.transaction import Transaction

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
