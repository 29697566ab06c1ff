"""What can be written to the log, each kind with its rule, under the log's lock."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa

from nextquery.errors import UnknownDecision
from nextquery.outcomes import OPEN, UNDELIVERED, Learning, Status, after_feedback, timed_out
from nextquery.service.log.schema import decisions
from nextquery.service.log.transaction import Ledger, Row, Sighting


class Item(Protocol):
    """Something to be written: which decisions and requests it asks about, and its rule."""

    def asks(self) -> tuple[Sequence[str], Sequence[str]]:
        """Decision ids and request keys that `write` will look at."""

    def write(self, ledger: Ledger) -> Any:
        """Write, and return what its sender is told; raises before it has written anything."""


class Written(NamedTuple):
    """What became of a decision: its position; or the decision its request had before; or stale."""

    position: int | None = None
    known: tuple[str, str] | None = None

    @property
    def stale(self) -> bool:
        """Whether it was made without knowing of a block or a switch, so that it must be anew."""
        return self.position is None and self.known is None


@dataclass(frozen=True)
class NewDecision:
    """A slate, before it is answered."""

    id: str
    session_id: str
    body: dict[str, Any]
    model_version: int
    user_hash: str | None = None
    request_key: str | None = None
    request_hash: str | None = None
    sighting: Sighting | None = None
    min_users: int = 2

    def asks(self) -> tuple[Sequence[str], Sequence[str]]:
        """The request."""
        return (), () if self.request_key is None else (self.request_key,)

    def write(self, ledger: Ledger) -> Written:
        """Record it, unless its request was answered before or the model missed a block."""
        if self.request_key is not None and self.request_key in ledger.requests:
            return Written(known=ledger.requests[self.request_key])
        if self.model_version < ledger.barrier:
            return Written()
        position = ledger.append("decision", self.body, self.id)
        arms = [entry["arm"] for entry in self.body["slate"]]
        ledger.add_decision(
            {
                "id": self.id,
                "session_id": self.session_id,
                "request_key": self.request_key,
                "request_hash": self.request_hash,
                "user_hash": self.user_hash,
                "state": OPEN.state,
                "accepted": None,
                "arms": json.dumps(arms),
                "rewards": "[]",
                "issued": False,
                "delivered": False,
            }
        )
        ledger.rows[self.id] = Row(self.id, position, self.user_hash, arms, OPEN, False, False)
        if self.request_key is not None:
            ledger.requests[self.request_key] = (self.id, self.request_hash or "")
        if self.sighting is not None:
            ledger.sight(self.sighting, self.min_users)
        return Written(position)


@dataclass(frozen=True)
class Issued:
    """The query that was typed instead: as an arm with its features, or not yet an arm."""

    arm: int | None = None
    features: list[float] = field(default_factory=list)
    model: int = 0
    sighting: Sighting | None = None


@dataclass(frozen=True)
class FeedbackResult:
    """What became of feedback: recorded; repeated (known already); corrected; or ignored."""

    status: Status
    decision_id: str
    accepted: int | None
    """What the log now says was accepted."""


@dataclass(frozen=True)
class NewFeedback:
    """What a person did with a slate."""

    decision_id: str
    accepted: int | None
    learning: Learning
    issued: Issued | None = None
    min_users: int = 2

    def asks(self) -> tuple[Sequence[str], Sequence[str]]:
        """The decision."""
        return (self.decision_id,), ()

    def write(self, ledger: Ledger) -> FeedbackResult:
        """Record what is new in it."""
        row = ledger.rows.get(self.decision_id)
        if row is None:
            raise UnknownDecision(
                f"there is no decision {self.decision_id!r}. Send the decision_id that "
                "/v1/recommend answered with."
            )
        before = row.outcome
        issued = None if row.issued else self.issued  # only the first word on it counts
        arm = None if issued is None else issued.arm
        status, after, typed = after_feedback(
            before, row.arms, accepted=self.accepted, typed=arm, learning=self.learning
        )
        told = issued is not None and status != "ignored"
        body: dict[str, Any] = {"accepted": self.accepted}
        if told and issued is not None and arm is not None:
            body["issued"] = {"arm": arm}
            if typed and issued.features:
                body["issued"] |= {"features": issued.features, "model": issued.model}
        undone = ledger.issued_of(row.id) if status == "corrected" and row.issued else None
        if undone is not None:  # it was not typed instead, after all
            body["unissued"] = undone
        if told or status in ("recorded", "corrected"):
            told_now = told and status == "repeated"
            status = "recorded" if told_now else status
            body |= {"old": before.rewards, "new": after.rewards, "state": after.state}
            ledger.append("feedback", {**body, "was": before.state}, row.id)
        if told or after != before or not row.delivered:
            row.outcome, row.delivered, row.changed = after, True, True
            row.issued = row.issued or told
        if told and issued is not None and issued.sighting is not None:
            ledger.sight(issued.sighting, self.min_users)
        return FeedbackResult(status, row.id, after.accepted)


@dataclass(frozen=True)
class CloseOpen:
    """Slates that had their time: failed if they reached their user, else not delivered."""

    timeout_s: float
    learning: Learning
    most: int = 500

    def asks(self) -> tuple[Sequence[str], Sequence[str]]:
        """Nothing beforehand."""
        return (), ()

    def write(self, ledger: Ledger) -> int:
        """Close them; how many were."""
        ledger.flush()
        old = sa.select(decisions.c.id).where(
            decisions.c.state == OPEN.state, decisions.c.time <= ledger.time - self.timeout_s
        )
        found = old.order_by(decisions.c.time).limit(self.most)
        due = list(ledger.connection.execute(found).scalars())
        ledger.fetch([one for one in due if one not in ledger.rows], ())
        for decision_id in due:
            row = ledger.rows[decision_id]
            after = timed_out(row.arms, self.learning) if row.delivered else UNDELIVERED
            kind = "timeout" if row.delivered else "undelivered"
            body = {"old": row.outcome.rewards, "new": after.rewards, "state": after.state}
            ledger.append(kind, {**body, "was": row.outcome.state}, row.id)
            row.outcome, row.changed = after, True
        return len(due)


@dataclass(frozen=True)
class Control:
    """A block, an unblock, the switch, an arm removed: every later answer knows of it."""

    kind: str
    body: dict[str, Any]

    def asks(self) -> tuple[Sequence[str], Sequence[str]]:
        """Nothing."""
        return (), ()

    def write(self, ledger: Ledger) -> int:
        """Write it, and make it known; its position."""
        position = ledger.append(self.kind, self.body)
        ledger.must_be_known()
        return position


@dataclass(frozen=True)
class NewModel:
    """The model that decisions are made with from here on."""

    body: dict[str, Any]
    after: int
    arms: int

    def asks(self) -> tuple[Sequence[str], Sequence[str]]:
        """Nothing."""
        return (), ()

    def write(self, ledger: Ledger) -> int | None:
        """Write it, unless somebody wrote another after the model `after`; its position."""
        if ledger.model != self.after:
            return None
        ledger.next_arm = max(ledger.next_arm, self.arms)
        ledger.model = ledger.append("model", self.body)
        return ledger.model
