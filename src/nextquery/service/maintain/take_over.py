"""Begin the log of a new pool with what another log has learnt."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from nextquery.arms import ArmPool
from nextquery.arms.texts import placeholder_text
from nextquery.catalogue.catalogue import Catalogue
from nextquery.errors import InvalidInput
from nextquery.policies import Policy
from nextquery.segments import segment_of, text_of
from nextquery.service.log import events
from nextquery.service.log.schema import arm_texts
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.writer import NOTHING, Needs, Transaction, Writer
from nextquery.service.model import experiments
from nextquery.service.model.catalogue import PoolOfLog, ServedCatalogue
from nextquery.service.model.learner import Learner, newest_state
from nextquery.service.model.prepare import check_pool, first_model
from nextquery.service.model.state import State
from nextquery.service.settings import EngineOptions
from nextquery.signing import keyed
from nextquery.warm_start import StepProgress

_SAMPLED = 32  # texts on which two encoders are compared


class TakenOver(NamedTuple):
    """What the new log begins with."""

    updates: int
    arms: int
    removed: int
    blocked: int
    held: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class _Arms:
    """What the old log says about arms, for the new pool; `texts` is for the table `arm_texts`."""

    added: list[events.ArmAdded] = field(default_factory=list)
    removed: list[events.ArmRemoved] = field(default_factory=list)
    blocked: list[events.Blocked] = field(default_factory=list)
    patterns: list[events.PatternBlocked] = field(default_factory=list)
    pins: list[events.Pinned] = field(default_factory=list)
    held: list[events.ArmHeld] = field(default_factory=list)
    rejected: list[events.ArmRejected] = field(default_factory=list)
    texts: dict[str, tuple[str, int | None]] = field(default_factory=dict)  # state and arm

    def remove(self, text: str, arm: int | None) -> None:
        """Remove the arm of a text; a text that is no arm must never become one."""
        if arm is not None:
            self.removed.append(events.ArmRemoved(arm))
        self.texts[text] = ("removed", arm)


@dataclass(frozen=True)
class _Begin:
    """The first events of a log, for a pool of `size` arms; `known`: the old rows of the texts."""

    model: events.ModelEvent
    size: int
    arms: _Arms
    known: dict[str, dict[str, Any]]

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append them all, if the log is still empty."""
        if transaction.position:
            raise InvalidInput("the new store has events already. Pass a new, empty store.")
        transaction.model = transaction.append(self.model)
        arms, bodies = self.arms, list[events.Body]()
        for more in (arms.added, arms.removed, arms.blocked, arms.patterns, arms.pins):
            bodies += more
        bodies += [*arms.held, *arms.rejected]
        for body in bodies:
            transaction.append(body)
        rows = [self._row(transaction, text) for text in arms.texts]
        if rows:
            transaction.connection.execute(sa.insert(arm_texts), rows)
        transaction.next_arm = self.size + len(arms.added)
        transaction.raise_barrier()
        return transaction.position

    def _row(self, transaction: Transaction, text: str) -> dict[str, Any]:
        state, arm = self.arms.texts[text]
        row = {"shown": text, "owner": "", "qualified": None, "time": transaction.time}
        row |= self.known.get(text, {})
        return row | {"text_key": transaction.text_key(text), "state": state, "arm": arm}


def take_over(
    pool: ArmPool,
    store: Store,
    options: EngineOptions,
    *,
    old_pool: ArmPool,
    old_store: Store,
    progress: StepProgress | None = None,
) -> TakenOver:
    """Write the first events of a new log, for a new pool, from an old log and its pool.

    The model is the new pool's warm start and what the old log taught. Blocks, removed arms, arms
    that were added live, and held and rejected queries come along by their texts; the new pool's
    encoder encodes them. The memory of live sessions does not: its queries are those of the old
    pool.
    """
    if store.head().position:
        raise InvalidInput(f"{store.name} has events already. Pass a new, empty store.")
    check_pool(old_store, old_pool)
    learner = Learner(old_store, newest_state(old_store), arms=PoolOfLog(old_pool))
    learner.catch_up()
    learner.refresh()
    old, catalogue = learner.state, learner.catalogue
    if old.model_event is None or catalogue is None:
        raise InvalidInput(f"{old_store.name} has no model, so there is nothing to take over.")
    taught = options.new_policy()
    _check_features(old.model_state.policy, taught, pool, old_pool)
    base = experiments.policy_of(learner.model(old.model))
    updates = old.model_state.policy.updates_since(base)
    taught.take_over(old.model_state.policy, base)
    new = first_model(pool, options, progress)
    arrays = experiments.unpacked(experiments.from_text(new.arrays)) | experiments.under(
        experiments.TAUGHT, taught.state()
    )
    refused = [event.body for event in old_store.of_kind(events.ArmRejected.kind, old.position)]
    rejected = [body.text for body in refused if isinstance(body, events.ArmRejected)]
    arms = _arms(pool, old, catalogue, rejected)
    model = replace(new, arrays=experiments.to_text(experiments.packed(arrays)))
    begin = _Begin(model, pool.rows_in_all, arms, _known(old_store, arms.texts))
    writer = Writer(store, Clock(), written=lambda: None)
    try:
        writer.submit(begin).result()
    finally:
        writer.close()
    return TakenOver(
        updates,
        arms=len(arms.added),
        removed=len(arms.removed),
        blocked=len(arms.blocked) + len(arms.patterns),
        held=len(arms.held),
        rejected=len(arms.rejected),
    )


def _arms(pool: ArmPool, old: State, catalogue: ServedCatalogue, rejected: Iterable[str]) -> _Arms:
    """Find what the old log says about arms in the new pool."""
    arms, fresh, texts = _Arms(), Catalogue(pool), catalogue.pool.texts
    blocked = set(old.blocked)
    removed = (texts[arm] for arm in sorted(old.removed) if texts[arm] != placeholder_text(arm))
    for text in removed:
        arms.remove(text, pool.index_of(text))
        if pool.index_of(text) is None:
            blocked.add(text_of(text))
    for text in rejected:
        if pool.index_of(text) is None:
            arms.rejected.append(events.ArmRejected(text))
            arms.texts[text] = ("rejected", None)
        else:
            arms.remove(text, pool.index_of(text))
    for arm in old.added:
        place = fresh.place(text_of(arm.text), segment_of(arm.text))
        if place.may_become_arm and catalogue.pool.index_of(arm.text) == arm.arm:
            arm_id = pool.rows_in_all + len(arms.added)
            arms.added.append(
                events.ArmAdded(arm_id, place.text, arm.shown, events.vector_text(place.vector))
            )
            arms.texts[place.text] = ("added", arm_id)
    for held in old.held.values():
        place = fresh.place(text_of(held.text), segment_of(held.text))
        if place.may_become_arm:
            arms.held.append(
                events.ArmHeld(place.text, held.shown, events.vector_text(place.vector))
            )
            arms.texts[place.text] = ("held", None)
    arms.blocked.extend(map(events.Blocked, sorted(blocked)))
    arms.patterns.extend(map(events.PatternBlocked, sorted(old.patterns)))
    arms.pins.extend(events.Pinned(text, after) for after, text in old.pins)
    return arms


def _known(store: Store, texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return what the old store knows about these texts: spelling, owner and times."""
    with store.reading() as connection:
        rows = {row.text_key: row for row in connection.execute(sa.select(arm_texts))}
    secret, names = store.head().secret, ("shown", "owner", "qualified", "time")
    keys = {text: keyed(secret, "text", text) for text in texts}
    return {
        text: {name: getattr(rows[key], name) for name in names}
        for text, key in keys.items()
        if key in rows
    }


def _check_features(old: Policy, new: Policy, pool: ArmPool, old_pool: ArmPool) -> None:
    """Raise an error unless features mean the same to both policies, each with its pool."""
    why = f"its features ({old.learns}) mean other things in another pool"
    if old.learns != new.learns:
        why = f"it learnt from {old.learns or 'nothing'!r}, and the policy of the settings learns "
        why += f"from {new.learns or 'nothing'!r}"
    else:
        vectors = old.learns in ("arm", "interaction")
        if old.learns in ("", "memory") or (vectors and _same_encoder(pool, old_pool)):
            return
    raise InvalidInput(
        f"what the old log taught cannot be taken over: {why}. Set the policy of the old log, or "
        "start with a new store and nothing learnt."
    )


def _same_encoder(pool: ArmPool, old_pool: ArmPool) -> bool:
    if pool.encoder is None or old_pool.encoder is None or pool.dim != old_pool.dim:
        return False
    ids = np.linspace(0, old_pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
    texts = [text_of(old_pool.texts[int(arm)]) for arm in ids]
    new, old = pool.encoder.encode(texts), old_pool.encoder.encode(texts)
    return bool(np.allclose(new, old, rtol=0, atol=1e-5))
