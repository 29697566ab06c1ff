"""The arms of the service: a copy of the pool that only events change."""

import base64
import hashlib
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.arms.texts import matched
from nextquery.catalogue import Catalogue
from nextquery.errors import Damaged, InvalidInput
from nextquery.exclusions import MIN_HITS
from nextquery.policies.packed import unpack
from nextquery.service.log.event_parts import OwnAsked
from nextquery.service.log.events import ArmAdded, DecisionEvent, Event, Void
from nextquery.service.log.operators.changes import (
    ArmRemoved,
    Blocked,
    PatternAllowed,
    PatternBlocked,
    Unblocked,
)
from nextquery.service.log.operators.curation import Pinned, Unpinned
from nextquery.service.log.store import Store
from nextquery.service.model.event_checks import unusable
from nextquery.service.model.state import State

_SAMPLED = 256  # rows in a fingerprint


class ServedCatalogue(Catalogue):
    """A catalogue that follows the log."""

    def __init__(self, pool: ArmPool, *, min_letters: int = 0, min_hits: int = MIN_HITS) -> None:
        super().__init__(pool.copy(), min_letters=min_letters, min_hits=min_hits)
        if pool.origin is not None:
            pool.origin.arm_of_readable("")  # makes its table, so that nobody waits for it

    def restore(self, state: State) -> None:
        """Take over the arms of a snapshot."""
        for arm in state.added:
            self._add(arm)
        self._use_up(state.arms_used_up)
        if state.removed:
            self.pool.remove(state.removed)
        for text in state.blocked:
            self.block_text(text)
        for pattern in state.patterns:
            self.block_pattern(pattern)
        self.pins = state.pins.copy()
        self.version += 1

    def check(self, event: Event) -> None:
        """Raise `Damaged` if an event does not fit the arms."""
        rows = self.pool.rows_in_all
        match event.body:
            case DecisionEvent() as body:
                shown = [arm for arm in body.arms if arm >= 0 or body.own is None]
                arms = [*shown, *body.history, *body.kept, body.anchor_arm or 0]
                if not 0 <= min(arms) <= max(arms) < max(rows, 1):
                    raise unusable(event, f"it names an arm that is not one of the {rows}")
                step = unpack(base64.b64decode(body.failures))
                if step.arms is not None and step.arms.ids.max() >= rows:
                    raise unusable(event, f"it would teach an arm that is not one of the {rows}")
                if body.own is not None and body.own.text:
                    self._check_row(event, body.own)
            case ArmAdded() as added:
                if added.arm != rows:
                    raise unusable(event, f"it adds arm {added.arm}, and {rows} is the next id")
                self._check_row(event, added)
            case PatternBlocked(pattern):
                try:
                    self.pattern(pattern)
                except InvalidInput:  # its message quotes it
                    raise unusable(event, "its pattern is not valid") from None
            case ArmRemoved(arm):
                if not 0 <= arm < rows:
                    raise unusable(event, f"it removes arm {arm}, and there are {rows}")

    def _check_row(self, event: Event, record: ArmAdded | OwnAsked) -> None:
        try:
            row = record.row()
            matched([record.text], [] if row is None else row[None], dim=self.pool.dim)
        except ValueError:  # its message may quote the text
            raise unusable(event, "its text or its vector is not valid") from None

    def follow(self, event: Event) -> None:
        """Apply an event that changes arms and has passed `check`; ignore the others."""
        match event.body:
            case ArmAdded() as arm:
                self._add(arm)
            case ArmRemoved(arm_id):
                self.remove(arm_id)
            case Blocked(text):
                self.block_text(text)
            case Unblocked(text):
                self.unblock_text(text)
            case PatternBlocked(pattern):
                self.block_pattern(pattern)
            case PatternAllowed(pattern):
                self.unblock_pattern(pattern)
            case Pinned(text, after):
                self.pins.pin(text, after)
            case Unpinned(text, after):
                self.pins.unpin(text, after)
            case Void() as void:
                self._use_up(void.arms)

    def _add(self, arm: ArmAdded) -> None:
        """Add an arm under its id.

        A text that was an arm before keeps its first id: the row of the second is never selected.
        The same holds for ids between, whose events are void.
        """
        if arm.arm < self.pool.rows_in_all:
            raise Damaged(
                f"the snapshot adds arm {arm.arm}, and this pool has {self.pool.rows_in_all}: the "
                "store belongs to another pool."
            )
        self._use_up(arm.arm)
        if self.pool.texts.ids_of(arm.text):
            self._use_up(arm.arm + 1)
        else:
            self.add(arm.text, arm.row(), arm.shown)

    def _use_up(self, arms: int) -> None:
        """Use up the ids below `arms` with rows that are never selected."""
        while self.pool.rows_in_all < arms:
            self.remove(self.add(f"\0arm {self.pool.rows_in_all}", self._unit))

    @cached_property
    def _unit(self) -> NDArray[np.float32]:
        unit = np.zeros(self.pool.dim, np.float32)
        unit[0] = 1.0
        return unit


def followed(pool: ArmPool, store: Store) -> ServedCatalogue:
    """Return the arms at the end of a log, with what is blocked and pinned."""
    from nextquery.service.model.learner import Learner  # it imports this module
    from nextquery.service.model.snapshots import newest_state

    catalogue = ServedCatalogue(pool)
    learner = Learner(store, newest_state(store), catalogue=catalogue)
    catalogue.restore(learner.state)
    learner.catch_up()
    return catalogue


def fingerprint(pool: ArmPool) -> str:
    """Return a digest of a pool: its size and a sample of its texts and vectors."""
    digest = hashlib.sha256(f"{pool.rows_in_all} {pool.dim}".encode())
    if pool.rows_in_all:
        ids = np.linspace(0, pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
        digest.update(np.ascontiguousarray(pool.rows(ids)).tobytes())
        digest.update("\0".join(pool.texts[i] for i in ids).encode())
    return digest.hexdigest()
