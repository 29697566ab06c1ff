"""Recording feedback: what a click, a null or a typed query does to the log."""

from dataclasses import dataclass, field

from nextquery.errors import UnknownDecision
from nextquery.outcomes import Learning, Status, after_feedback
from nextquery.service.log.events import FeedbackEvent, TypedArm
from nextquery.service.log.new_arms.sightings import NewArmRules, Sighting, record_sighting
from nextquery.service.log.transaction import Needs, Row, Transaction


@dataclass(frozen=True)
class TypedQuery:
    """The query that was typed instead: an arm with its features, or not yet an arm."""

    arm: int | None = None
    features: tuple[float, ...] = ()
    model: int = 0
    sighting: Sighting | None = None


@dataclass(frozen=True)
class FeedbackResult:
    """How feedback was taken: recorded, repeated (known already), corrected or ignored.

    `accepted` is the arm that is accepted according to the log now.
    """

    status: Status
    decision_id: str
    accepted: int | None


@dataclass(frozen=True)
class NewFeedback:
    """What a person did with a slate."""

    decision_id: str
    accepted: int | None
    learning: Learning
    issued: TypedQuery | None = None
    owner: str = ""
    user_hash: str | None = None
    rules: NewArmRules = field(default_factory=NewArmRules)

    @property
    def _sighting(self) -> Sighting | None:
        return None if self.issued is None else self.issued.sighting

    def needs(self) -> Needs:
        """The decision; who sent this, and who typed the same."""
        sighting = self._sighting
        users = (self.user_hash, None if sighting is None else sighting.user_hash)
        return Needs(
            decisions=(self.decision_id,),
            users=[user for user in users if user is not None],
            texts=() if sighting is None else (sighting.text_key,),
        )

    def write(self, transaction: Transaction) -> FeedbackResult:
        """Record what is new in the feedback."""
        row = transaction.rows.get(self.decision_id)
        if row is None or row.owner != self.owner:
            raise unknown_decision(self.decision_id)
        before = row.outcome
        issued = None if row.issued else self.issued  # the first typed query counts
        arm = None if issued is None else issued.arm
        status, after, typed = after_feedback(
            before, row.arms, accepted=self.accepted, typed=arm, learning=self.learning
        )
        is_new = issued is not None and status != "ignored"
        if is_new and status == "repeated":
            status = "recorded"
        if status in ("recorded", "corrected"):
            corrects = status == "corrected" and row.issued
            event = FeedbackEvent(
                accepted=self.accepted,
                old=before.rewards,
                new=after.rewards,
                state=after.state,
                was=before.state,
                issued=_typed_arm(issued, teaches=typed) if is_new else None,
                unissued=transaction.typed_before(row.id) if corrects else None,
            )
            transaction.append(event, row.id)
        if is_new or after != before or not row.delivered:
            row.outcome, row.delivered, row.changed = after, True, True
            row.issued = row.issued or is_new
        self._meet(transaction, row, self._sighting if is_new else None)
        return FeedbackResult(status, row.id, after.accepted)

    def _meet(self, transaction: Transaction, row: Row, sighting: Sighting | None) -> None:
        """Record that this user was in the session of the decision, and what they typed."""
        session = transaction.session_key(row.owner, row.session_id)
        if self.user_hash is not None:
            transaction.identities.join(self.user_hash, session)
        if sighting is not None:
            record_sighting(transaction, sighting, self.rules, owner=row.owner, session=session)


def _typed_arm(issued: TypedQuery | None, *, teaches: bool) -> TypedArm | None:
    if issued is None or issued.arm is None:
        return None
    if not teaches or not issued.features:
        return TypedArm(issued.arm)
    return TypedArm(issued.arm, issued.features, issued.model)


def unknown_decision(decision_id: str) -> UnknownDecision:
    """The error for feedback on a decision that the log does not contain."""
    return UnknownDecision(
        f"there is no decision {decision_id!r}. Send the decision_id that /v1/recommend returned."
    )
