"""One writing transaction: it hands out positions, and writes everything at its end."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from nextquery.outcomes import Outcome
from nextquery.service.log.clock import Clock
from nextquery.service.log.schema import added_arms, counter, decisions, events, sightings
from nextquery.service.log.store import head_of

_MANY = 500  # values in one IN (...)


@dataclass
class Row:
    """What `decisions` says of one decision, and whether this transaction changed it."""

    id: str
    position: int
    user_hash: str | None
    arms: list[int]
    outcome: Outcome
    issued: bool
    delivered: bool
    changed: bool = False


@dataclass(frozen=True)
class Sighting:
    """Somebody issued a query that is not an arm: what is needed if it becomes one."""

    text_key: str
    user_hash: str
    text: str
    shown: str
    vector: str


@dataclass
class Ledger:
    """The log under its lock: nobody else appends until the transaction ends."""

    connection: sa.Connection
    clock: Clock
    rows: dict[str, Row] = field(default_factory=dict)
    requests: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        head = head_of(self.connection, lock=True)
        self.position, self.next_arm, self.barrier = head.position, head.next_arm, head.barrier
        self.model = head.model
        self.time = self.clock.at_least(head.clock)
        self._started_at = head.position
        self._events: list[dict[str, Any]] = []
        self._decisions: list[dict[str, Any]] = []

    def fetch(self, decision_ids: Iterable[str], request_keys: Iterable[str]) -> None:
        """Read what the items of this transaction will ask about, all at once."""
        columns = [decisions.c[n] for n in ("id", "position", "user_hash", "state", "accepted")]
        columns += [decisions.c[n] for n in ("arms", "rewards", "issued", "delivered")]
        for part in _parts(decision_ids):
            found = sa.select(*columns).where(decisions.c.id.in_(part))
            for row in self.connection.execute(found):
                outcome = Outcome(row.state, row.accepted, json.loads(row.rewards))
                arms = json.loads(row.arms)
                self.rows[row.id] = Row(
                    row.id, row.position, row.user_hash, arms, outcome, row.issued, row.delivered
                )
        same = (decisions.c.request_key, decisions.c.id, decisions.c.request_hash)
        for part in _parts(request_keys):
            found = sa.select(*same).where(decisions.c.request_key.in_(part))
            for key, decision_id, request_hash in self.connection.execute(found):
                self.requests[key] = (decision_id, request_hash)

    def issued_of(self, decision_id: str) -> dict[str, Any] | None:
        """What feedback on a decision said was typed instead, if that taught anything."""
        self.flush()
        said = sa.select(events.c.body).where(events.c.decision_id == decision_id)
        found = said.where(events.c.kind == "feedback").order_by(events.c.position)
        bodies = (json.loads(body) for body in self.connection.execute(found).scalars())
        typed = (body.get("issued") for body in bodies)
        return next((one for one in typed if one and "features" in one), None)

    def append(self, kind: str, body: dict[str, Any], decision_id: str | None = None) -> int:
        """Write an event at the end of the log; its position."""
        self.position += 1
        self._events.append(
            {
                "position": self.position,
                "kind": kind,
                "time": self.time,
                "decision_id": decision_id,
                "body": json.dumps(body, separators=(",", ":"), allow_nan=False),
            }
        )
        return self.position

    def must_be_known(self) -> None:
        """No answer may be recorded any more that does not know of the last event."""
        self.barrier = self.position

    def add_decision(self, values: dict[str, Any]) -> None:
        """Let the decision be found that was appended last."""
        self._decisions.append({**values, "position": self.position, "time": self.time})

    def sight(self, sighting: Sighting, min_users: int) -> int | None:
        """Remember who issued a query; the id of the new arm if that was the last one needed."""
        same_text = sightings.c.text_key == sighting.text_key
        arm = sa.select(added_arms.c.arm).where(added_arms.c.text_key == sighting.text_key)
        if self.connection.execute(arm).first() is not None:
            return None
        seen = sa.select(sightings.c.user_hash).where(same_text)
        users = set(self.connection.execute(seen).scalars())
        if sighting.user_hash in users:
            return None
        if len(users) + 1 < min_users:
            row = {"text_key": sighting.text_key, "user_hash": sighting.user_hash}
            self.connection.execute(sa.insert(sightings), [row])
            return None
        new, self.next_arm = self.next_arm, self.next_arm + 1
        self.connection.execute(sa.delete(sightings).where(same_text))
        self.connection.execute(
            sa.insert(added_arms), [{"text_key": sighting.text_key, "arm": new}]
        )
        body = {"arm": new, "text": sighting.text, "shown": sighting.shown}
        self.append("arm_added", {**body, "vector": sighting.vector})
        return new

    def flush(self) -> None:
        """Write all that was collected."""
        if self._events:
            self.connection.execute(sa.insert(events), self._events)
        if self._decisions:
            self.connection.execute(sa.insert(decisions), self._decisions)
        changed = [row for row in self.rows.values() if row.changed]
        if changed:
            self.connection.execute(_UPDATE, [_values(row) for row in changed])
        if self.position > self._started_at:
            values = {"position": self.position, "next_arm": self.next_arm}
            values |= {"barrier": self.barrier, "model": self.model}
            self.connection.execute(sa.update(counter).values(**values, clock=self.time))
        self._events, self._decisions, self._started_at = [], [], self.position
        for row in changed:
            row.changed = False


_UPDATE = (
    sa.update(decisions)
    .where(decisions.c.id == sa.bindparam("row_id"))
    .values(
        state=sa.bindparam("new_state"),
        accepted=sa.bindparam("new_accepted"),
        rewards=sa.bindparam("new_rewards"),
        issued=sa.bindparam("new_issued"),
        delivered=sa.bindparam("new_delivered"),
    )
)


def _values(row: Row) -> dict[str, Any]:
    return {
        "row_id": row.id,
        "new_state": row.outcome.state,
        "new_accepted": row.outcome.accepted,
        "new_rewards": json.dumps(row.outcome.rewards),
        "new_issued": row.issued,
        "new_delivered": row.delivered,
    }


def _parts(values: Iterable[str]) -> Iterable[list[str]]:
    wanted = sorted(set(values))
    return (wanted[start : start + _MANY] for start in range(0, len(wanted), _MANY))
