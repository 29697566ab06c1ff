"""The arms of the service: a pool of its own, changed by events alone."""

import hashlib

import numpy as np

from nextquery.arms import ArmPool
from nextquery.catalogue import Catalogue
from nextquery.errors import Damaged
from nextquery.service.log.store import Event
from nextquery.service.model.state import AddedArm, State

_SAMPLED = 256  # rows that a fingerprint looks at


class ServedCatalogue(Catalogue):
    """A catalogue that follows the log."""

    def __init__(self, pool: ArmPool) -> None:
        super().__init__(pool.copy())

    def restore(self, state: State) -> None:
        """Take over what a snapshot says of the arms."""
        for arm in state.added:
            self._add(arm)
        if state.removed:
            self.pool.remove(state.removed)
        for text in state.blocked:
            self.block_text(text)
        self.version += 1

    def follow(self, event: Event) -> None:
        """Change what an event changes."""
        if event.kind == "arm_added":
            self._add(AddedArm(**event.body))
        elif event.kind == "arm_removed":
            self.remove(event.body["arm"])
        elif event.kind == "blocked":
            self.block_text(event.body["text"])
        elif event.kind == "unblocked":
            self.unblock_text(event.body["text"])

    def _add(self, arm: AddedArm) -> None:
        if arm.arm != self.pool.rows_in_all:
            raise Damaged(
                f"the log adds arm {arm.arm}, and this pool has ids up to "
                f"{self.pool.rows_in_all - 1}: they do not belong together."
            )
        self.add(arm.text, arm.row(), arm.shown)


def fingerprint(pool: ArmPool) -> str:
    """What tells a pool from another: its size and a sample of its texts and vectors."""
    said = hashlib.sha256(f"{pool.rows_in_all} {pool.dim}".encode())
    if pool.rows_in_all:
        ids = np.linspace(0, pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
        said.update(np.ascontiguousarray(pool.rows(ids)).tobytes())
        said.update("\0".join(pool.texts[i] for i in ids).encode())
    return said.hexdigest()
