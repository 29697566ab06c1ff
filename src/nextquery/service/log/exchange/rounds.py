"""The answered entries of the log: what was offered, how probable that was, and what came of it."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from nextquery.learning import Rewards
from nextquery.service.log.events import PINNED, FeedbackEvent, SlateEntry, from_json
from nextquery.service.log.export import pages
from nextquery.service.log.schema import decisions, events
from nextquery.service.log.store import Store, StoredDecision


class Round(NamedTuple):
    """One entry of a slate whose reward is known; `ordinal` counts from 0 at the top."""

    decision: StoredDecision
    ordinal: int
    entry: SlateEntry
    reward: int


def rounds(store: Store) -> Iterator[list[Round]]:
    """Yield the answered entries in the order of the log, a page of decisions at a time.

    If the next query is known, clicked or typed, every entry was answered; otherwise those that
    the learning rule takes as seen. What only one person asked is left out, and so is an entry
    without a propensity: neither can be offered to others, or weighed. Pins were drawn by nobody:
    they are left out, and so are slates whose pin was clicked.
    """
    for page in pages(store):
        found = [exported.decision for exported in page]
        rewards = _rewards(store, [decision.id for decision in found])
        known = _next_known(store, [decision.id for decision in found])
        yield [
            Round(decision, ordinal, entry, reward)
            for decision in found
            if not _clicked_a_pin(decision)
            for ordinal, (entry, reward) in enumerate(
                zip(
                    decision.body.slate,
                    answers(
                        rewards[decision.id], len(decision.body.slate), full=decision.id in known
                    ),
                    strict=True,
                )
            )
            if reward is not None and entry.arm >= 0 and 0.0 < entry.propensity <= 1.0
            if entry.source != PINNED
        ]


def _clicked_a_pin(decision: StoredDecision) -> bool:
    pins = {entry.arm for entry in decision.body.slate if entry.source == PINNED}
    return decision.accepted in pins


def answers(rewards: Rewards, length: int, *, full: bool) -> Rewards:
    """Return the reward of every entry of a slate, None where there is no answer.

    >>> answers([0, 1], 4, full=True), answers([0], 3, full=False)
    ([0, 1, 0, 0], [0, None, None])
    """
    below: Rewards = [0 if full else None] * (length - len(rewards))
    return [0 if full and reward is None else reward for reward in rewards] + below


def _rewards(store: Store, ids: Sequence[str]) -> dict[str, Rewards]:
    columns = sa.select(decisions.c.id, decisions.c.rewards).where(decisions.c.id.in_(ids))
    with store.reading() as connection:
        return {row.id: json.loads(row.rewards) for row in connection.execute(columns)}


def _next_known(store: Store, ids: Sequence[str]) -> set[str]:
    """Return the decisions whose next query is known."""
    feedback = (events.c.kind == FeedbackEvent.kind, events.c.decision_id.in_(ids))
    rows = sa.select(events.c.position, events.c.decision_id, events.c.body).where(*feedback)
    known = set()
    with store.reading() as connection:
        for row in connection.execute(rows):
            body = from_json(FeedbackEvent.kind, row.body, row.position)
            if isinstance(body, FeedbackEvent) and (body.accepted is not None or body.full):
                known.add(row.decision_id)
    return known
