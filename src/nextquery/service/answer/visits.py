"""The state of a session, from its newest decision in the log."""

from nextquery.loop import Visit
from nextquery.service.log.store import StoredDecision


def visit_of(session_id: str, last: StoredDecision | None, person: str | None = None) -> Visit:
    """Return the state of a session after its newest decision, for a person if they are known."""
    if last is None:
        return Visit(person=person, session=session_id)
    before, own = visit_before(last), last.body.own
    key = None if own is None else own.text or None
    after = before.after(last.body.anchor_arm, last.body.arms, key, last.body.kept)
    return after._replace(person=person, previous=after.previous if own is not None else None)


def visit_before(decision: StoredDecision) -> Visit:
    """Return the state of a session just before a decision, but with the candidate set of it."""
    body, own = decision.body, decision.body.own
    session = decision.session_id
    earlier = Visit(body.history, body.seen, body.trial - 1, session=session, kept=body.kept)
    return earlier if own is None else earlier._replace(person=own.person, previous=own.after)
