"""The arms as they are at the learner's position, and where a query stands among them."""

import hashlib
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.errors import Damaged, InvalidInput
from nextquery.logs.single import Cleaned, QueryCleaner
from nextquery.service.state import AddedArm, State
from nextquery.service.store import Event
from nextquery.vectors import unit_rows

_CLEANED = 16_384  # cleaned queries kept at hand
_SAMPLED = 256  # rows that a fingerprint looks at


class Anchor(NamedTuple):
    """A query as it was typed, and where it stands."""

    query: str
    text: str  #: the key under which it is an arm or may become one
    shown: str
    arm: int | None
    vector: NDArray[np.float32]
    may_become_arm: bool


class Catalogue:
    """A pool of its own, changed by events alone; `version` counts the changes."""

    def __init__(self, pool: ArmPool) -> None:
        self.pool = pool.copy()
        self.version = 0
        self.blocked: set[str] = set()
        self._shown: dict[int, str] = {}
        self._blocked_arms: tuple[int, list[int]] = (0, [])
        clean = QueryCleaner() if pool.origin is None else pool.origin.clean
        self._cleaned = lru_cache(_CLEANED)(clean)

    def restore(self, state: State) -> None:
        """Take over what a snapshot says of the arms."""
        for arm in state.added:
            self._add(arm)
        if state.removed:
            self.pool.remove(state.removed)
        self.blocked = set(state.blocked)
        self.version += 1

    def follow(self, event: Event) -> None:
        """Change what an event changes."""
        if event.kind == "arm_added":
            self._add(AddedArm(**event.body))
        elif event.kind == "arm_removed":
            self.pool.remove([event.body["arm"]])
        elif event.kind == "blocked":
            self.blocked.add(event.body["text"])
        elif event.kind == "unblocked":
            self.blocked.discard(event.body["text"])
        else:
            return
        self.version += 1

    def _add(self, arm: AddedArm) -> None:
        if arm.arm != self.pool.rows_in_all:
            raise Damaged(
                f"the log adds arm {arm.arm}, and this pool has ids up to "
                f"{self.pool.rows_in_all - 1}: they do not belong together."
            )
        self.pool.add([arm.text], arm.row()[None])
        self._shown[arm.arm] = arm.shown

    def clean(self, query: str) -> Cleaned:
        """A query through the rules that cleaned the log."""
        return self._cleaned(query)

    def find(self, query: str) -> int | None:
        """The arm that a query stands for."""
        arm = self.pool.index_of(query)
        return self.pool.index_of(self.clean(query).text) if arm is None else arm

    def key(self, query: str) -> str:
        """The text by which a query is blocked: its arm's, or as cleaning makes it."""
        arm = self.find(query)
        text = self.clean(query).text if arm is None else self.pool.texts[arm]
        if not text:
            raise InvalidInput(
                f"nothing is left of {query[:80]!r} after cleaning, so it can be no arm and needs "
                "no block."
            )
        return text

    def shown(self, arm: int) -> str:
        """The text of an arm as people see it."""
        return self._shown.get(arm) or self.pool.shown(arm)

    def blocked_arms(self) -> list[int]:
        """The arms never to be shown."""
        if self._blocked_arms[0] != self.version:
            found = (self.pool.index_of(text) for text in self.blocked)
            self._blocked_arms = (self.version, sorted(arm for arm in found if arm is not None))
        return self._blocked_arms[1]

    def anchor(self, query: str) -> Anchor:
        """Where a query stands: an arm, or a text that the encoder gives a vector."""
        arm = self.find(query)
        if arm is not None:
            text = self.pool.texts[arm]
            return Anchor(query, text, query, arm, self.pool.rows([arm])[0], False)
        cleaned = self.clean(query)
        encoder = self.pool.encoder
        if encoder is None or not cleaned.text:
            vector = np.zeros(self.pool.dim, np.float32)
        else:
            rows = encoder.encode([cleaned.text])
            vector = unit_rows(rows, what="encoded query", dim=self.pool.dim, allow_zero=True)[0]
        sound = cleaned.dropped is None and cleaned.private is None and bool(vector.any())
        may = sound and bool(cleaned.text) and cleaned.text not in self.blocked
        return Anchor(query, cleaned.text, cleaned.shown, None, vector, may)


def fingerprint(pool: ArmPool) -> str:
    """What tells a pool from another: its size and a sample of its texts and vectors."""
    said = hashlib.sha256(f"{pool.rows_in_all} {pool.dim}".encode())
    if pool.rows_in_all:
        ids = np.linspace(0, pool.rows_in_all - 1, _SAMPLED).astype(np.int64)
        said.update(np.ascontiguousarray(pool.rows(ids)).tobytes())
        said.update("\0".join(pool.texts[i] for i in ids).encode())
    return said.hexdigest()
