"""Which decision a UBI record is about."""

import sqlalchemy as sa

from nextquery.service.log.schema import decisions
from nextquery.service.log.store import Store, StoredDecision, request_key


def decision_of(store: Store, owner: str, query_id: str) -> StoredDecision | None:
    """Return the decision with this id, or else the one that was asked for with this request id."""
    found = store.decision(query_id)
    if found is None:
        key = request_key(owner, query_id)
        with store.reading() as connection:
            known = connection.execute(
                sa.select(decisions.c.id).where(decisions.c.request_key == key)
            ).scalar()
        found = None if known is None else store.decision(known)
    return found if found is not None and found.owner == owner else None


def decision_before(store: Store, decision: StoredDecision) -> StoredDecision | None:
    """Return the decision before this one in its session, or None."""
    earlier = sa.select(decisions.c.id).where(
        decisions.c.owner == decision.owner,
        decisions.c.session_id == decision.session_id,
        decisions.c.position < decision.position,
    )
    with store.reading() as connection:
        newest = earlier.order_by(decisions.c.position.desc()).limit(1)
        known = connection.execute(newest).scalar()
    return None if known is None else store.decision(known)
