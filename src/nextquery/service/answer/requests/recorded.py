"""Decisions that were recorded before, as their owner may see them now."""

import numpy as np

from nextquery.segments import key_of
from nextquery.service.log.decisions import unknown_decision
from nextquery.service.log.events import SlateEntry
from nextquery.service.log.store import Store, StoredDecision
from nextquery.service.model.catalogue import ServedCatalogue


def recorded(store: Store, decision_id: str, owner: str) -> StoredDecision:
    """Return a decision; raise `UnknownDecision` if this owner has none of that id."""
    stored = store.decision(decision_id)
    if stored is None or stored.owner != owner:
        raise unknown_decision(decision_id)
    return stored


def still_shown(stored: StoredDecision, catalogue: ServedCatalogue) -> list[SlateEntry]:
    """Return the entries of a decision without those that were blocked or removed since."""
    alive = catalogue.pool.alive([arm for arm in stored.body.arms if arm >= 0])
    left = set(np.setdiff1d(alive, catalogue.hidden_arms()).tolist())
    own = [entry for entry in stored.body.slate if entry.arm < 0 and entry.text]
    segment = stored.body.segment
    left |= {
        entry.arm
        for entry in own
        if catalogue.own_id(key_of(segment, entry.text), segment) is not None
    }
    return [entry for entry in stored.body.slate if entry.arm in left]
