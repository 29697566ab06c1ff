"""Rebuild the state from the log, and repair events that cannot be read or applied.

A rebuilt state is compared with the newest snapshot.

A repair writes a `void` event in place of each broken one, and updates what follows from it:
tables, arms and removals. Nothing is deleted: a void event keeps the kind and the body of the one
it replaces, and the reason. The service may run meanwhile: each of its workers recomputes its
model afterwards.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.errors import Damaged
from nextquery.learning import OPEN, Outcome
from nextquery.service.log import events, schema
from nextquery.service.log.store import Clock, Store, as_event, is_time
from nextquery.service.log.writer import NOTHING, Needs, Transaction, Writer
from nextquery.service.model.catalogue import PoolOfLog
from nextquery.service.model.learner import Learner, foreseeing, newest_state, rebuilt
from nextquery.service.model.state import State

_OUTCOMES = [events.FeedbackEvent.kind, events.TimeoutEvent.kind, events.UndeliveredEvent.kind]
_USUAL = {
    events.DecisionEvent.kind,
    *_OUTCOMES,
    events.ModelEvent.kind,
    events.Void.kind,
    events.Forgotten.kind,
    events.Erased.kind,
}
_USUAL |= {
    events.ArmAdded.kind,
    events.ArmHeld.kind,
    events.ArmRejected.kind,
}  # `arm_texts` keeps a rejected text out


class Repaired(NamedTuple):
    """What was repaired: the position of an event, its kind (empty: it was missing), and why.

    `by_operator`: it may have been a block, a switch, a removal or a leave-out that does not hold
    any more.
    """

    position: int
    kind: str
    why: str
    by_operator: bool = False


@dataclass(frozen=True)
class MakeVoid:
    """Put a `void` event in the place of one that cannot be used; keep it if only its time is bad.

    An empty `left_out` event follows, in the same transaction: it makes every learner recompute,
    since some may have read the event before it was damaged.

    Parameters
    ----------
    position, why : the event, and what is wrong with it.
    arms : the number of arm ids that the events before it use up.
    removed, held : the arms that they remove, and the texts that they hold for review.
    """

    position: int
    why: str
    arms: int
    removed: frozenset[int]
    held: frozenset[str]

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> Repaired:
        """Replace the event, or its time, and return what was done."""
        transaction.flush()
        connection, here = transaction.connection, schema.events.c.position == self.position
        row = connection.execute(sa.select(schema.events).where(here)).first()
        older = schema.snapshots.c.position < self.position
        connection.execute(sa.delete(schema.snapshots).where(~older))
        transaction.append(events.LeftOut())
        before = sa.select(schema.events.c.time).where(
            schema.events.c.position == self.position - 1
        )
        time = connection.execute(before).scalar() or 0.0
        if row is not None and not is_time(row.time):
            connection.execute(sa.update(schema.events).where(here).values(time=time))
            same = schema.decisions.c.position == self.position
            connection.execute(sa.update(schema.decisions).where(same).values(time=time))
            why = f"the time of event {self.position} was no time; now it is that of the one before"
            return Repaired(self.position, row.kind, f"{why}.")
        kind, body = ("", "") if row is None else (row.kind, row.body)
        arms = self._arms_after(transaction)
        void = events.Void(was=kind, body=body, why=self.why, arms=arms if arms > self.arms else 0)
        values = {"kind": events.Void.kind, "body": events.to_json(void)}
        if row is None:
            missing = {"position": self.position, "time": time, "decision_id": None}
            connection.execute(sa.insert(schema.events), [missing | values])
        else:
            connection.execute(sa.update(schema.events).where(here).values(**values))
        _forget_decision(connection, self.position, None if row is None else row.decision_id)
        if self.position == transaction.model:
            models = sa.select(sa.func.max(schema.events.c.position))
            models = models.where(schema.events.c.kind == events.ModelEvent.kind)
            transaction.model = connection.execute(models).scalar() or 0
        self._free_texts(transaction, arms)
        removed_again = self._remove_again(transaction)
        undone = kind not in _USUAL and not (kind == events.ArmRemoved.kind and removed_again)
        return Repaired(self.position, kind, self.why, undone)

    def _arms_after(self, transaction: Transaction) -> int:
        """How many arm ids are used up after the event, according to what comes later.

        An event that is missing or cannot be read may have been an arm.
        """
        for event in self._later(transaction, events.ArmAdded.kind):
            body = event.body
            if isinstance(body, events.ArmAdded) and self.arms <= body.arm < transaction.next_arm:
                return body.arm
        return max(self.arms, transaction.next_arm)

    def _free_texts(self, transaction: Transaction, arms: int) -> None:
        """Let texts become arms again whose own event, as an arm or as held, is void."""
        lost = (
            schema.arm_texts.c.state == "added",
            schema.arm_texts.c.arm >= self.arms,
            schema.arm_texts.c.arm < arms,
        )
        transaction.connection.execute(sa.delete(schema.arm_texts).where(*lost))
        later = (event.body for event in self._later(transaction, events.ArmHeld.kind))
        held = self.held | {body.text for body in later if isinstance(body, events.ArmHeld)}
        keys = {transaction.text_key(text) for text in held}
        waiting = sa.select(schema.arm_texts.c.text_key).where(schema.arm_texts.c.state == "held")
        for key in transaction.connection.execute(waiting).scalars().all():
            if key not in keys:
                deletion = sa.delete(schema.arm_texts).where(schema.arm_texts.c.text_key == key)
                transaction.connection.execute(deletion)

    def _remove_again(self, transaction: Transaction) -> set[int]:
        """Append the removals that only the table knows; return their arms."""
        rows = sa.select(schema.arm_texts.c.arm).where(
            schema.arm_texts.c.state == "removed", schema.arm_texts.c.arm < transaction.next_arm
        )
        later = (event.body for event in self._later(transaction, events.ArmRemoved.kind))
        known = self.removed | {body.arm for body in later if isinstance(body, events.ArmRemoved)}
        again = set(transaction.connection.execute(rows).scalars()) - known
        for arm in sorted(again):
            transaction.append(events.ArmRemoved(arm))
            transaction.raise_barrier()
        return again

    def _later(self, transaction: Transaction, kind: str) -> Iterator[events.Event]:
        after = sa.select(schema.events).where(
            schema.events.c.kind == kind, schema.events.c.position > self.position
        )
        yield from _readable(transaction.connection, after)


def _forget_decision(connection: sa.Connection, position: int, decision_id: str | None) -> None:
    """Forget the decision at a position, or the outcome that the event there gave to another."""
    connection.execute(sa.delete(schema.decisions).where(schema.decisions.c.position == position))
    if decision_id is not None:
        _set_outcome(connection, decision_id)
        return
    outcomes = sa.select(schema.events.c.decision_id).where(schema.events.c.kind.in_(_OUTCOMES))
    known = outcomes.where(schema.events.c.decision_id == schema.decisions.c.id).exists()
    closed = sa.select(schema.decisions.c.id).where(schema.decisions.c.state != OPEN.state, ~known)
    for found in connection.execute(closed).scalars().all():
        _set_outcome(connection, found)


def _set_outcome(connection: sa.Connection, decision_id: str) -> None:
    """Give a decision the outcome of its last event that counts."""
    found = sa.select(schema.events).where(
        schema.events.c.decision_id == decision_id, schema.events.c.kind.in_(_OUTCOMES)
    )
    outcome = OPEN
    for event in _readable(connection, found):
        if isinstance(event.body, events.OutcomeEvent):
            body = event.body
            accepted = body.accepted if isinstance(body, events.FeedbackEvent) else None
            clicked = accepted if body.state == "accepted" else None
            outcome = Outcome(body.state, clicked, body.new)
    connection.execute(
        sa.update(schema.decisions)
        .where(schema.decisions.c.id == decision_id)
        .values(state=outcome.state, accepted=outcome.accepted, rewards=json.dumps(outcome.rewards))
    )


def _readable(connection: sa.Connection, found: sa.Select[Any]) -> Iterator[events.Event]:
    """Yield events in order, without those that cannot be read: they will be void too."""
    for row in connection.execute(found.order_by(schema.events.c.position)):
        try:
            yield as_event(row)
        except Damaged:
            continue


AGREE = 1e-9
"""The largest difference of two states that count as the same."""


class Rebuilt(NamedTuple):
    """The state at the end of the log, compared with the newest snapshot.

    `snapshot` is the position of that snapshot (0: there is none). `difference` is the largest
    difference of any number in it, infinite if more than numbers differ.
    """

    state: State
    snapshot: int
    difference: float

    @property
    def agrees(self) -> bool:
        """Whether the snapshot equals the log, up to `AGREE`."""
        return self.difference <= AGREE


def rebuild(store: Store, pool: ArmPool | None = None) -> Rebuilt:
    """Read the whole log, comparing with the newest snapshot on the way.

    With the pool, raise `Damaged` where a start of the service would.
    """
    kept = newest_state(store)
    arms = None if pool is None else PoolOfLog(pool)
    learner = Learner(store, foreseeing(store, kept.position), arms=arms)
    learner.catch_up(until=kept.position)
    apart = difference(learner.state, kept)
    if arms is not None:
        arms.at(kept)
    learner.catch_up()
    state = rebuilt(store, until=learner.position) if learner.state.stale else learner.state
    return Rebuilt(state, kept.position, apart)


def difference(one: State, other: State) -> float:
    """Return the largest difference of two states; infinite if more than numbers differ.

    >>> difference(State(), State())
    0.0
    """
    ours, theirs = one.arrays(), other.arrays()
    if ours.keys() != theirs.keys():
        return float("inf")
    largest = 0.0
    for name, value in ours.items():
        other_value = theirs[name]
        if value.shape != other_value.shape or value.dtype.kind != other_value.dtype.kind:
            return float("inf")
        if value.dtype.kind == "f":
            largest = max(largest, float(np.abs(value - other_value).max(initial=0.0)))
        elif not np.array_equal(value, other_value):
            return float("inf")
    return largest


def repair(store: Store, pool: ArmPool) -> list[Repaired]:
    """Replace every event that cannot be read or applied; return what was done, in order.

    `pool` must be the pool of the log (`prepare.check_pool`). Repairing again does nothing.
    """
    done: list[Repaired] = []
    learner = Learner(store, arms=PoolOfLog(pool))
    writer = Writer(store, Clock(), written=lambda: None)
    try:
        while learner.position < (head := store.head().position):
            try:
                learner.catch_up(until=head)
                if learner.position < head:
                    raise Damaged(f"events after {learner.position} are missing.")
            except Damaged as error:
                why = str(error).removesuffix(events.REPAIR).strip()
                state, arms = learner.state, _arms(learner)
                removed, held = frozenset(state.removed), frozenset(state.held)
                void = MakeVoid(learner.position + 1, why, arms, removed, held)
                done.append(writer.submit(void).result())
    finally:
        writer.close()
    return done


def _arms(learner: Learner) -> int:
    """Return how many arm ids are used up, so that a lost arm uses up the next one."""
    known = learner.catalogue
    if known is not None:
        return known.pool.rows_in_all
    state = learner.state  # another pool was served here: its own arms are not known any more
    return max([state.arms_used_up, *(arm.arm + 1 for arm in state.added)])


def warning(done: Sequence[Repaired]) -> str:
    """Say which of an operator's decisions may not hold any more, and what to do; or nothing."""
    positions = ", ".join(str(event.position) for event in done if event.by_operator)
    if not positions:
        return ""
    return (
        f"What an operator decided may not hold any more: void events ({positions}) may have been "
        "a block, the kill switch, a removed arm or a leave-out. Compare GET /v1/operate, GET "
        "/v1/arms and nextquery leave-out --list with what you had, and decide it again."
    )
