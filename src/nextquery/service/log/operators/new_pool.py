"""Another pool under the same log: its new arms get their ids, then all workers change together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import sqlalchemy as sa

from nextquery.service.log.operators.changes import ArmRemoved
from nextquery.service.log.schema import arm_texts

if TYPE_CHECKING:
    from nextquery.service.log.events import ModelEvent
    from nextquery.service.log.transaction import Needs, Transaction

Runs = tuple[tuple[int, int], ...]
_BARRED = ("rejected", "removed")


@dataclass(frozen=True)
class PoolAnnounced:
    """A pool will be served: the ids of its rows are taken from here on."""

    kind: ClassVar[str] = "pool_announced"
    pool: str  #: its fingerprint
    runs: Runs  #: the ids of its rows: see `nextquery.arms.remap.Layout`
    arms: int  #: arm ids below this are used up


@dataclass(frozen=True)
class AnnouncePool:
    """Take ids for the rows that a pool has more than the one of the model at `after`."""

    pool: str
    runs: Runs  #: of the rows that have ids already
    known: int  #: how many rows have
    rows: int
    after: int

    def needs(self) -> "Needs":
        """Nothing."""
        from nextquery.service.log.transaction import NOTHING

        return NOTHING

    def write(self, transaction: "Transaction") -> PoolAnnounced | None:
        """Append the event and return it; None if `after` is not the newest model."""
        if transaction.model != self.after:
            return None
        first, more = transaction.next_arm, self.rows - self.known
        transaction.next_arm += more
        row, id = (self.runs or ((0, 0),))[-1]
        follows = first == id + self.known - row
        runs = (
            self.runs if not more or follows else (*(self.runs or ((0, 0),)), (self.known, first))
        )
        announced = PoolAnnounced(self.pool, runs, transaction.next_arm)
        transaction.append(announced)
        return announced


@dataclass(frozen=True)
class ChangePool:
    """From here on decisions are made with another pool, and with this model for it.

    `texts` are the keys of the new rows, each with its id: those that an operator removed or
    rejected are removed.
    """

    body: "ModelEvent"
    after: int
    texts: Mapping[str, int]

    def needs(self) -> "Needs":
        """Nothing."""
        from nextquery.service.log.transaction import NOTHING

        return NOTHING

    def write(self, transaction: "Transaction") -> int | None:
        """Append the model, raise the barrier, return the position; None as of `AnnouncePool`."""
        if transaction.model != self.after:
            return None
        transaction.model = transaction.append(self.body)
        for arm in self._barred(transaction):
            transaction.append(ArmRemoved(arm))
        transaction.raise_barrier()
        return transaction.model

    def _barred(self, transaction: "Transaction") -> Sequence[int]:
        rows = sa.select(arm_texts.c.text_key).where(arm_texts.c.state.in_(_BARRED))
        keys = transaction.connection.execute(rows).scalars()
        return sorted(self.texts[key] for key in keys if key in self.texts)
