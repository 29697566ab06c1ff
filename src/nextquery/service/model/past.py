"""Earlier events that a later one refers to."""

import base64
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from nextquery.service.log.events import PINNED, DecisionEvent, ModelEvent


class Decided(NamedTuple):
    """What later events need to know about a decision."""

    arms: list[int]
    features: list[tuple[float, ...]]
    policy: str
    model: int
    fallback: bool
    time: float
    position: int
    teaches: bool
    failures: bytes
    personal: bool  #: whether it was made for a person with a past of their own
    pinned: Sequence[bool] = ()  #: which entries were
    assigned: str = ""  #: the policy of its session
    teams: Sequence[str | None] = ()  #: the policies that picked the entries of an interleaved one

    @classmethod
    def of(cls, body: DecisionEvent, time: float, position: int) -> "Decided":
        """Take it from the event of the decision."""
        features = [entry.features for entry in body.slate]
        made_by = (body.policy, body.model, body.fallback)
        failures = base64.b64decode(body.failures)
        personal = body.own is not None
        made = cls(body.arms, features, *made_by, time, position, body.teaches, failures, personal)
        return made._replace(
            pinned=[entry.source == PINNED for entry in body.slate],
            assigned=body.assigned or body.policy,
            teams=[entry.team for entry in body.slate] if any(e.team for e in body.slate) else (),
        )


class Past(Protocol):
    """Earlier events that a later one refers to."""

    def decision(self, decision_id: str) -> Decided:
        """Return a decision by its id."""

    def model(self, position: int) -> ModelEvent:
        """Return the model event at a position."""
