"""Texts that too few people are left of: taken out of everything that the store holds.

They are arms, wait for review, or were refused by an operator. Their arms end first, so that no
new slate has them. Then their texts go out of everybody's decisions: out of slates, and out of what
was typed. Their own events become tombstones last: until then, their texts can be read there, so an
erasure that was interrupted goes on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from nextquery.service.log.erasure.recount import OF_ARMS, Marked, decisions_in_pages
from nextquery.service.log.erasure.spellings import Leaving
from nextquery.service.log.events import ArmAdded, DecisionEvent, Forgotten, from_json, to_json
from nextquery.service.log.schema import arm_texts, events
from nextquery.service.log.store import Store, as_event
from nextquery.service.log.writer import NOTHING, Needs, Transaction

_WRITTEN = 200  # events changed in one transaction


def take_out(
    store: Store,
    leaving: Leaving,
    found: set[int],
    submit: Callable[["TakeOut"], object],
    tell: Callable[[float], None],
    *,
    after: int,
) -> None:
    """Take texts out of all decisions, a few in one transaction.

    A search has `found` them up to the position `after`; the rest of the log is searched here.
    """
    for page in decisions_in_pages(store, tell, after=after):
        found |= {position for position, body in page if leaving.in_decision(body)}
    positions = sorted(found)
    for start in range(0, len(positions), _WRITTEN):
        submit(TakeOut(positions[start : start + _WRITTEN], leaving))
        tell(start / len(positions))


@dataclass(frozen=True)
class TakeOut:
    """Take some texts out of the decisions at these positions."""

    positions: Sequence[int]
    leaving: Leaving

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> None:
        """Write the decisions without them."""
        transaction.flush()
        connection = transaction.connection
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA secure_delete=ON")
        these = events.c.position.in_(self.positions), events.c.kind == DecisionEvent.kind
        for row in connection.execute(sa.select(events).where(*these)).all():
            body = from_json(row.kind, row.body, row.position)
            assert isinstance(body, DecisionEvent)
            changed = sa.update(events).where(events.c.position == row.position)
            connection.execute(changed.values(body=to_json(self.leaving.without(body))))


def end(transaction: Transaction, gone: Marked) -> None:
    """Put tombstones in the place of the texts' own events, and forget them in the table."""
    connection = transaction.connection
    for position in gone.texts:
        here = events.c.position == position, events.c.kind.in_(OF_ARMS)
        row = connection.execute(sa.select(events).where(*here)).first()
        if row is None:
            continue
        body = as_event(row).body
        left = Forgotten(arms=body.arm + 1) if isinstance(body, ArmAdded) else Forgotten()
        connection.execute(
            sa.update(events).where(*here).values(kind=Forgotten.kind, body=to_json(left))
        )
    keys = {transaction.text_key(text) for text in gone.texts.values()}
    mine = sa.and_(arm_texts.c.text_key.in_(keys), arm_texts.c.min_users < 0)
    again = arm_texts.c.state.in_(("added", "held"))  # may become arms again; others never do
    connection.execute(sa.delete(arm_texts).where(mine, again))
    connection.execute(sa.update(arm_texts).where(mine).values(shown=""))
