"""Recording a slate before it is answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.new_arms import Sighting, record_sighting
from nextquery.service.log.transaction import Transaction


class Written(NamedTuple):
    """The position of a recorded slate, or the decision that its request had before.

    Neither: the slate is *stale*. Its model had not read a block or a switch, so it must be made
    again.
    """

    position: int | None = None
    known: tuple[str, str] | None = None

    @property
    def stale(self) -> bool:
        """Whether the slate must be made again."""
        return self.position is None and self.known is None


@dataclass(frozen=True)
class NewDecision:
    """A slate, before it is answered."""

    id: str
    session_id: str
    body: DecisionEvent
    user_hash: str | None = None
    request_key: str | None = None
    request_hash: str | None = None
    sighting: Sighting | None = None
    min_users: int = 2

    def needs(self) -> tuple[Sequence[str], Sequence[str]]:
        """The request, to recognise a repetition."""
        return (), () if self.request_key is None else (self.request_key,)

    def write(self, transaction: Transaction) -> Written:
        """Record the slate, unless its request was answered before or its model is stale."""
        if self.request_key is not None and self.request_key in transaction.requests:
            return Written(known=transaction.requests[self.request_key])
        if self.body.model_version < transaction.barrier:
            return Written()
        position = transaction.append(self.body, self.id)
        transaction.add_decision(
            self.id,
            self.body.arms,
            session_id=self.session_id,
            user_hash=self.user_hash,
            request_key=self.request_key,
            request_hash=self.request_hash,
        )
        if self.sighting is not None:
            record_sighting(transaction, self.sighting, self.min_users)
        return Written(position)
