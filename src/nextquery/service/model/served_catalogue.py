"""The arms of the service: a copy of the pool that only events change."""

import hashlib

import numpy as np

from nextquery.arms import ArmPool
from nextquery.catalogue import Catalogue
from nextquery.errors import Damaged
from nextquery.service.log.events import ArmAdded, ArmRemoved, Blocked, Event, Unblocked
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

    def follow(self, event: Event) -> None:
        """Apply an event that changes arms; ignore the others."""
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
        if arm.arm != self.pool.rows_in_all:
            raise Damaged(
                f"the log adds arm {arm.arm}, but this pool has ids up to "
                f"{self.pool.rows_in_all - 1}: the store belongs to another pool."
            )
        self.add(arm.text, arm.row(), arm.shown)


def fingerprint(pool: ArmPool) -> str:
    """Return a digest of a pool: its size and a sample of its texts and vectors."""
    digest = hashlib.sha256(f"{pool.rows_in_all} {pool.dim}".encode())
    if pool.rows_in_all:
        ids = np.linspace(0, pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
        digest.update(np.ascontiguousarray(pool.rows(ids)).tobytes())
        digest.update("\0".join(pool.texts[i] for i in ids).encode())
    return digest.hexdigest()
