"""Begin the log of a new pool with what another log has learnt."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nextquery.arms import ArmPool
from nextquery.catalogue import Catalogue
from nextquery.errors import InvalidInput
from nextquery.policies import Policy
from nextquery.service.log.clock import Clock
from nextquery.service.log.events import ArmAdded, ArmRemoved, Blocked, ModelEvent, vector_text
from nextquery.service.log.store import Store
from nextquery.service.log.transaction import NOTHING, Needs, Transaction
from nextquery.service.log.writer import Writer
from nextquery.service.model.arrays import from_text, packed, to_text, under, unpacked
from nextquery.service.model.learner import Learner
from nextquery.service.model.model_events import TAUGHT, policy_of
from nextquery.service.model.prepare import check_pool, first_model
from nextquery.service.model.served_catalogue import ServedCatalogue
from nextquery.service.model.snapshots import newest_state
from nextquery.service.model.state import State
from nextquery.service.settings.engine_options import EngineOptions
from nextquery.warm_start import Progress

_SAMPLED = 32  # texts on which two encoders are compared


class TakenOver(NamedTuple):
    """What the new log begins with."""

    updates: int
    arms: int
    removed: int
    blocked: int


@dataclass(frozen=True)
class _Begin:
    """The first events of a log."""

    model: ModelEvent
    arms: int
    added: list[ArmAdded]
    removed: list[int]
    blocked: list[str]

    def needs(self) -> Needs:
        """Nothing."""
        return NOTHING

    def write(self, transaction: Transaction) -> int:
        """Append them all, if the log is still empty."""
        if transaction.position:
            raise InvalidInput("the new store has events already. Pass a new, empty store.")
        transaction.model = transaction.append(self.model)
        for arm in self.added:
            transaction.append(arm)
        for removed in self.removed:
            transaction.append(ArmRemoved(removed))
        for text in self.blocked:
            transaction.append(Blocked(text))
        transaction.next_arm = self.arms + len(self.added)
        transaction.raise_barrier()
        return transaction.position


def take_over(
    pool: ArmPool,
    store: Store,
    options: EngineOptions,
    *,
    old_pool: ArmPool,
    old_store: Store,
    progress: Progress | None = None,
) -> TakenOver:
    """Write the first events of a new log, for a new pool, from an old log and its pool.

    The model is the new pool's warm start and what the old log taught. Blocks, removed arms, and
    arms that were added live come along by their texts; the new pool's encoder encodes them. The
    memory of live sessions does not: its queries are those of the old pool.
    """
    if store.head().position:
        raise InvalidInput(f"{store.name} has events already. Pass a new, empty store.")
    check_pool(old_store, old_pool)
    catalogue = ServedCatalogue(old_pool)
    learner = Learner(old_store, newest_state(old_store), catalogue=catalogue)
    catalogue.restore(learner.state)
    learner.catch_up()
    learner.refresh()
    old = learner.state
    if old.model_event is None:
        raise InvalidInput(f"{old_store.name} has no model, so there is nothing to take over.")
    taught = options.new_policy()
    _check_features(old.learnt.policy, taught, pool, old_pool)
    base = policy_of(learner.model(old.model))
    updates = old.learnt.policy.learnt_since(base)
    taught.take_over(old.learnt.policy, base)
    new = first_model(pool, options, progress)
    arrays = unpacked(from_text(new.arrays)) | under(TAUGHT, taught.state())
    added, removed, blocked = _arms(pool, old, catalogue)
    begin = _Begin(
        replace(new, arrays=to_text(packed(arrays))), pool.rows_in_all, added, removed, blocked
    )
    writer = Writer(store, Clock(), written=lambda: None)
    try:
        writer.submit(begin).result()
    finally:
        writer.close()
    return TakenOver(updates, len(added), len(removed), len(blocked))


def _arms(
    pool: ArmPool, old: State, catalogue: ServedCatalogue
) -> tuple[list[ArmAdded], list[int], list[str]]:
    """Return the arms to add and to remove, and the texts to block, in the new pool."""
    fresh, texts = Catalogue(pool), catalogue.pool.texts
    gone = [texts[arm] for arm in sorted(old.removed)]
    removed = [arm for arm in map(pool.index_of, gone) if arm is not None]
    blocked = sorted({*old.blocked, *(text for text in gone if pool.index_of(text) is None)})
    added: list[ArmAdded] = []
    for arm in old.added:
        place = fresh.place(arm.text)
        known = place.arm is not None or not place.vector.any() or not place.may_become_arm
        if not known and catalogue.pool.index_of(arm.text) == arm.arm:
            arm_id = pool.rows_in_all + len(added)
            added.append(ArmAdded(arm_id, place.text, arm.shown, vector_text(place.vector)))
    return added, removed, blocked


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
    texts = [old_pool.texts[int(arm)] for arm in ids]
    new, old = pool.encoder.encode(texts), old_pool.encoder.encode(texts)
    return bool(np.allclose(new, old, rtol=0, atol=1e-5))
