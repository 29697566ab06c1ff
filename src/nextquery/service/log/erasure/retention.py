"""Retention by age: decisions that are older than so many days are erased, by themselves."""

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from nextquery.service.log.erasure.erase import EraseDecisions, begun, forget_names
from nextquery.service.log.erasure.finish import EndErasure
from nextquery.service.log.erasure.forget import AT_ONCE, Submit
from nextquery.service.log.schema import arm_texts, decisions, identities, sightings
from nextquery.service.log.store import Store
from nextquery.service.log.writer import NOTHING, Needs, Transaction

DAY = 86_400.0


def first_kept(now: float, days: float) -> float:
    """Return the first time that is kept: the start of a day of UTC, so that it changes daily.

    >>> first_kept(10.5 * DAY, 3.0) / DAY
    7.0
    """
    return (now - days * DAY) // DAY * DAY


def erase_older(
    store: Store, before: float, submit: Submit, *, pause: Callable[[], bool] = lambda: False
) -> int:
    """Erase the decisions from before a time; return how many there were.

    `pause` is called between two transactions, so that requests come first; if it returns True, the
    rest is left for the next time.
    """
    erased = 0
    while ids := _older(store, before):
        erased += submit(EraseDecisions(ids, by_age=True)).decisions
        if pause():
            return erased
    forgot = submit(ForgetOlder(before))  # also what a run left that was killed before this
    if erased or forgot:
        submit(EndErasure("age", due=True))
    return erased


def _older(store: Store, before: float) -> list[str]:
    """Return some of the decisions that are older, the oldest first; those still open are not."""
    rows = sa.select(decisions.c.id).where(decisions.c.time < before, decisions.c.state != "open")
    with store.reading() as connection:
        found = connection.execute(rows.order_by(decisions.c.position).limit(AT_ONCE))
        return list(found.scalars())


@dataclass(frozen=True)
class ForgetOlder:
    """Forget who typed what before a time, and who shared a session, once nothing needs it.

    Who typed the text of an arm, or of a query under review, stays: an arm must keep its people,
    so that it can be counted again when one of them is forgotten.
    """

    before: float

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> bool:
        """Delete them; return whether there were any."""
        transaction.flush()
        connection = transaction.connection
        counted = sa.select(arm_texts.c.text_key).where(arm_texts.c.state.in_(("added", "held")))
        old = sa.and_(sightings.c.time < self.before, sightings.c.text_key.not_in(counted))
        aged = sa.select(identities.c.name).where(identities.c.time < self.before)
        names = set(connection.execute(aged).scalars())
        names -= self._used(transaction, sa.not_(old)) if names else set()
        typed = connection.execute(sa.select(sightings.c.time).where(old).limit(1)).first()
        if not names and typed is None:
            return False
        begun(transaction)
        connection.execute(sa.delete(sightings).where(old))
        forget_names(connection, names)
        transaction.read_again()
        return True

    @staticmethod
    def _used(transaction: Transaction, stay: sa.ColumnElement[bool]) -> set[str]:
        """Return the users and sessions of decisions, and of the sightings that stay."""
        connection = transaction.connection
        columns = (sightings.c.user_hash, sightings.c.session_key)
        typed = connection.execute(sa.select(*columns).where(stay))
        used = {name for row in typed for name in row}
        found = sa.select(decisions.c.user_hash, decisions.c.owner, decisions.c.session_id)
        for user, owner, session_id in connection.execute(found.distinct()):
            used |= {user, transaction.session_key(owner, session_id)}
        return used
