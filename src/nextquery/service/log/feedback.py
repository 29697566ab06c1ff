"""Feedback: a click, an ignored slate or a typed query is read, checked and recorded once."""

from dataclasses import dataclass, field

from nextquery.errors import UnknownDecision
from nextquery.learning import (
    Learning,
    Outcome,
    Status,
    Typed,
    after_feedback,
)
from nextquery.service.log import events
from nextquery.service.log.new_arms import NewArmRules, Sighting, record_sighting
from nextquery.service.log.writer import DecisionRow, Needs, Transaction, TypedBefore


@dataclass(frozen=True)
class TypedQuery:
    """The query that was typed instead: an arm, with its features if it was a candidate.

    `teaches`: whether it is known if it was one. `failures`: see `NextQuery`.
    """

    arm: int | None = None
    features: tuple[float, ...] = ()
    sighting: Sighting | None = None
    teaches: bool = True
    failures: bytes = b""


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
    person: str | None = None

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
        if row is None or row.owner != self.owner or self._is_of_another(row):
            raise unknown_decision(self.decision_id)
        before = row.outcome
        issued = None if row.issued else self.issued  # the first typed query counts
        typed = None if issued is None or not issued.teaches else Typed(issued.arm)
        status, after = after_feedback(
            before, row.arms, accepted=self.accepted, typed=typed, learning=self.learning
        )
        is_new = issued is not None and status != "ignored"
        if is_new and status == "repeated":
            status = "recorded"
        if status in ("recorded", "corrected"):
            corrects = status == "corrected" and row.issued
            old = transaction.typed_before(row.id) if corrects else TypedBefore()
            event = events.FeedbackEvent(
                accepted=self.accepted,
                old=before.rewards,
                new=after.rewards,
                state=after.state,
                was=before.state,
                issued=issued.arm if issued is not None and is_new else None,
                full=_next_query(after, row.arms, issued) if after.full else None,
                unfull=old.full,
                foreseen=_foreseen(before, after, row.arms, issued if is_new else None),
                foreseen_before=old.foreseen,
            )
            transaction.append(event, row.id)
        if is_new or after != before or not row.delivered:
            row.outcome, row.delivered, row.changed = after, True, True
            row.issued = row.issued or is_new
        self._meet(transaction, row, self._sighting if is_new else None)
        return FeedbackResult(status, row.id, after.accepted)

    def _is_of_another(self, row: DecisionRow) -> bool:
        """Whether this person and the one who got the slate are both known, and two."""
        return None not in (row.person, self.person) and row.person != self.person

    def _meet(self, transaction: Transaction, row: DecisionRow, sighting: Sighting | None) -> None:
        """Record that this user was in the session of the decision, and what they typed."""
        session = transaction.session_key(row.owner, row.session_id)
        if self.user_hash is not None:
            transaction.identities.join(self.user_hash, session)
        if sighting is not None:
            record_sighting(transaction, sighting, self.rules, owner=row.owner, session=session)


def _next_query(after: Outcome, slate: list[int], issued: TypedQuery | None) -> events.NextQuery:
    """Return the next query as a candidate of the decision, if it was one."""
    if after.success in slate:
        return events.NextQuery(after.success)
    if issued is None:
        return events.NextQuery()
    arm = issued.arm if issued.features else None
    return events.NextQuery(arm, issued.features, events.bytes_text(issued.failures))


def _foreseen(
    before: Outcome, after: Outcome, slate: list[int], typed: TypedQuery | None
) -> bool | None:
    """Whether the next query was shown; None if this feedback does not make it known."""
    if before.state == "accepted":
        return None
    if after.accepted is not None:
        return True
    return None if typed is None else typed.arm in slate


def unknown_decision(decision_id: str) -> UnknownDecision:
    """The error for feedback on a decision that the log does not contain."""
    return UnknownDecision(
        f"there is no decision {decision_id!r}. Send the decision_id that /v1/recommend returned."
    )
