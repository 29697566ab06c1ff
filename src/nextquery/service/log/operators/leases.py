"""Work that one process does for all: a lease keeps the others from it until it is over."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from nextquery.service.log.schema import leases

if TYPE_CHECKING:
    from nextquery.service.log.transaction import Needs, Transaction

LEASE_S = 60.0
"""Seconds without a sign of life after which a holder is taken for dead."""


@dataclass(frozen=True)
class TakeLease:
    """Take a lease, or make it longer; return whether `holder` has it now."""

    name: str
    holder: str
    seconds: float

    def needs(self) -> "Needs":
        """Nothing."""
        return _nothing()

    def write(self, transaction: "Transaction") -> bool:
        """Write it, unless somebody else holds it."""
        connection, until = transaction.connection, transaction.time + self.seconds
        here = leases.c.name == self.name
        row = connection.execute(sa.select(leases).where(here)).first()
        if row is None:
            values = {"name": self.name, "holder": self.holder, "until": until}
            connection.execute(sa.insert(leases), [values])
            return True
        left = row.until - transaction.time
        if row.holder != self.holder and 0 < left <= 2 * self.seconds:  # more: a clock was wrong
            return False
        taken = sa.update(leases).where(here).values(holder=self.holder, until=until)
        connection.execute(taken)
        return True


@dataclass(frozen=True)
class EndLease:
    """Give a lease back."""

    name: str
    holder: str

    def needs(self) -> "Needs":
        """Nothing."""
        return _nothing()

    def write(self, transaction: "Transaction") -> None:
        """Delete it, if `holder` has it."""
        own = (leases.c.name == self.name, leases.c.holder == self.holder)
        transaction.connection.execute(sa.delete(leases).where(*own))


def _nothing() -> "Needs":
    from nextquery.service.log.transaction import NOTHING

    return NOTHING
