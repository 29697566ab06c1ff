"""When a new query becomes an arm: after enough distinct users have typed it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from nextquery.service.log.events import ArmAdded
from nextquery.service.log.schema import added_arms, sightings

if TYPE_CHECKING:
    from nextquery.service.log.transaction import Transaction


@dataclass(frozen=True)
class Sighting:
    """A user typed a query that is not an arm; with all that is needed if it becomes one."""

    text_key: str
    user_hash: str
    text: str
    shown: str
    vector: str


def record_sighting(transaction: "Transaction", sighting: Sighting, min_users: int) -> int | None:
    """Remember who typed a query; return the id of the new arm if `min_users` now have."""
    connection = transaction.connection
    same_text = sightings.c.text_key == sighting.text_key
    arm = sa.select(added_arms.c.arm).where(added_arms.c.text_key == sighting.text_key)
    if connection.execute(arm).first() is not None:
        return None
    users = set(connection.execute(sa.select(sightings.c.user_hash).where(same_text)).scalars())
    if sighting.user_hash in users:
        return None
    if len(users) + 1 < min_users:
        row = {"text_key": sighting.text_key, "user_hash": sighting.user_hash}
        connection.execute(sa.insert(sightings), [row])
        return None
    new = transaction.take_arm_id()
    connection.execute(sa.delete(sightings).where(same_text))
    connection.execute(sa.insert(added_arms), [{"text_key": sighting.text_key, "arm": new}])
    transaction.append(ArmAdded(new, sighting.text, sighting.shown, sighting.vector))
    return new
