"""Recording a slate before it is answered."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.new_arms.sightings import NewArmRules, Sighting, record_sighting
from nextquery.service.log.teaching.caps import Caps
from nextquery.service.log.transaction import Needs, Transaction


class Written(NamedTuple):
    """The position of a recorded slate, or the decision that its request had before.

    Neither: the slate is *stale*. Its model had not read a block or a switch, so it must be made
    again.
    """

    position: int | None = None
    known: tuple[str, str] | None = None
    teaches: bool = True


@dataclass(frozen=True)
class NewDecision:
    """A slate, before it is answered."""

    id: str
    session_id: str
    body: DecisionEvent
    user_hash: str | None = None
    request_key: str | None = None
    request_hash: str | None = None
    owner: str = ""
    sighting: Sighting | None = None
    rules: NewArmRules = field(default_factory=NewArmRules)
    caps: Caps = field(default_factory=Caps)
    person: str | None = None

    def needs(self) -> Needs:
        """The request, to recognise a repetition; who typed this, and where."""
        return Needs(
            requests=() if self.request_key is None else (self.request_key,),
            users=() if self.user_hash is None else (self.user_hash,),
            sessions=() if self.user_hash is None else ((self.owner, self.session_id),),
            texts=() if self.sighting is None else (self.sighting.text_key,),
            teachers=((self.caps, self.owner, self.session_id, self.user_hash),),
        )

    def write(self, transaction: Transaction) -> Written:
        """Record the slate, unless its request was answered before or its model is stale."""
        if self.request_key is not None and self.request_key in transaction.requests:
            return Written(known=transaction.requests[self.request_key])
        if self.body.model_version < transaction.barrier:
            return Written()
        session = transaction.session_key(self.owner, self.session_id)
        if self.user_hash is not None:
            transaction.identities.join(self.user_hash, session)
        identity = transaction.identity(self.user_hash)
        teaches = transaction.teaching.allows(self.caps.of(self.owner, self.session_id, identity))
        body = self.body if teaches else replace(self.body, teaches=False)
        position = transaction.append(body, self.id)
        transaction.add_decision(
            self.id,
            self.body.arms,
            owner=self.owner,
            session_id=self.session_id,
            user_hash=self.user_hash,
            request_key=self.request_key,
            request_hash=self.request_hash,
            person=self.person,
        )
        if self.sighting is not None:
            record_sighting(
                transaction, self.sighting, self.rules, owner=self.owner, session=session
            )
        return Written(position, teaches=teaches)
