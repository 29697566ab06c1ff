"""The arms of the service: a copy of the pool that only events change."""

import hashlib

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.texts import matched
from nextquery.catalogue import Catalogue
from nextquery.errors import Damaged
from nextquery.service.log.events import (
    ArmAdded,
    ArmRemoved,
    Blocked,
    DecisionEvent,
    Event,
    Unblocked,
)
from nextquery.service.model.event_checks import unusable
from nextquery.service.model.state import State

_SAMPLED = 256  # rows in a fingerprint


class ServedCatalogue(Catalogue):
    """A catalogue that follows the log."""

    def __init__(self, pool: ArmPool) -> None:
        super().__init__(pool.copy())

    def restore(self, state: State) -> None:
        """Take over the arms of a snapshot."""
        for arm in state.added:
            self._add(arm)
        if state.removed:
            self.pool.remove(state.removed)
        for text in state.blocked:
            self.block_text(text)
        self.version += 1

    def check(self, event: Event, state: State) -> None:
        """Raise `Damaged` if an event does not fit the arms; `state` is the one before it."""
        rows = self.pool.rows_in_all
        match event.body:
            case DecisionEvent() as body:
                arms = [*body.arms, *body.history, body.anchor_arm or 0]
                if not 0 <= min(arms) <= max(arms) < max(rows, 1):
                    raise unusable(event, f"it names an arm that is not one of the {rows}")
            case ArmAdded() as added:
                if not rows <= added.arm <= rows + state.void_arms:
                    raise unusable(event, f"it adds arm {added.arm}, and {rows} is the next id")
                try:
                    matched([added.text], added.row()[None], dim=self.pool.dim)
                except ValueError:  # its message may quote the text
                    raise unusable(event, "its text or its vector is not valid") from None
            case ArmRemoved(arm):
                if not 0 <= arm < rows:
                    raise unusable(event, f"it removes arm {arm}, and there are {rows}")

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
        while self.pool.rows_in_all < arm.arm:
            self._fill(arm)
        if self.pool.texts.ids_of(arm.text):
            self._fill(arm)
        else:
            self.add(arm.text, arm.row(), arm.shown)

    def _fill(self, like: ArmAdded) -> None:
        """Use up the next id with a row that is never selected."""
        row = self.add(f"\0arm {self.pool.rows_in_all}", like.row())
        self.remove(row)


def fingerprint(pool: ArmPool) -> str:
    """Return a digest of a pool: its size and a sample of its texts and vectors."""
    digest = hashlib.sha256(f"{pool.rows_in_all} {pool.dim}".encode())
    if pool.rows_in_all:
        ids = np.linspace(0, pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
        digest.update(np.ascontiguousarray(pool.rows(ids)).tobytes())
        digest.update("\0".join(pool.texts[i] for i in ids).encode())
    return digest.hexdigest()
