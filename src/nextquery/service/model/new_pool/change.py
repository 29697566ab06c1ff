"""The change of a log to a pool that continues the one it has: updated, or encoded anew.

First the ids of the new rows are taken (`pool_announced`), then the new model is computed, and its
event changes the pool. A process that dies in between leaves taken ids behind, which the next one
uses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.pool import continued, encoder_digest, fingerprint
from nextquery.arms.remap import Layout
from nextquery.errors import InvalidInput
from nextquery.policies import Policy
from nextquery.service.log.events import AnnouncePool, ChangePool, ModelEvent, PoolAnnounced
from nextquery.service.log.store import Store
from nextquery.service.model.experiment.branches import continuing, loses
from nextquery.service.model.model_events import policies_of
from nextquery.service.model.served_catalogue import ServedCatalogue
from nextquery.service.model.state import State
from nextquery.signing import keyed

POOL_LEASE = "pool"
"""The lease of who changes the pool of a log."""
Submit = Callable[[Any], Any]
"""Writes something to the log and returns what its write returns."""
_ANYWHERE = ("", "memory")  # what features that mean the same with any vectors are learnt from


@dataclass(frozen=True)
class Change:
    """A pool that continues the pool of the model at the position `after`."""

    pool: ArmPool
    digest: str
    last: ModelEvent
    after: int
    known: int  #: the rows of the pool before
    encoded_anew: bool

    @classmethod
    def to(cls, pool: ArmPool, last: ModelEvent, after: int, name: str) -> "Change":
        """Return the change; raise an error if the pool does not continue that of the model.

        `name` is that of the store, for the error.
        """
        before = continued(pool.origin, last.pool)
        if before is None:
            raise not_its_pool(name)
        anew = before.encoder != encoder_digest(pool)
        return cls(pool, fingerprint(pool), last, after, before.rows, anew)

    def layout(self, announced: PoolAnnounced | None) -> Layout | None:
        """Return the ids of the rows, if this pool was announced last."""
        if announced is None or announced.pool != self.digest:
            return None
        return Layout.of(announced.runs, self.pool.rows_in_all)

    def announce(self, submit: Submit) -> Layout | None:
        """Take ids for the rows; return None if the model is another by now."""
        rows = self.pool.rows_in_all
        made = AnnouncePool(self.digest, self.last.runs, self.known, rows, self.after)
        return self.layout(submit(made))

    def catalogue(
        self, state: State, layout: Layout, minimums: Mapping[str, int]
    ) -> ServedCatalogue:
        """Return the arms of a state with the new pool."""
        anew = self.encoded_anew
        return ServedCatalogue.at(self.pool, state, layout, encodes=anew, minimums=minimums)

    def loses(self, state: State, new: Mapping[str, Policy]) -> int:
        """Return how many live updates would be lost: `new` are the policies of the settings."""
        known, lost = policies_of(self.last), 0
        ends = loses(self.last, new)
        for number, (name, branch) in enumerate(state.branches().items()):
            means_nothing = self.encoded_anew and branch.policy.learns not in _ANYWHERE
            if name in known and (means_nothing or (ends and number == 0)):
                lost += branch.policy.learnt_since(known[name])
        return lost

    def _continuing(self, body: ModelEvent) -> ModelEvent:
        """Return the model with what its policies keep: features of old vectors mean nothing."""
        kept = continuing(body, self.last, self.after)
        if not self.encoded_anew:
            return kept
        policies = policies_of(body)
        others = tuple(
            one if policies[one.policy].learns in _ANYWHERE else replace(one, continues=None)
            for one in kept.beside
        )
        if policies[body.policy].learns in _ANYWHERE:
            return replace(kept, beside=others)
        return replace(kept, beside=others, continues=None, continued="")

    def write(self, body: ModelEvent, layout: Layout, store: Store, submit: Submit) -> int | None:
        """Change the pool; return the position, or None if the model is another by now."""
        runs = () if layout.is_plain else layout.runs
        kept = self._continuing(body)
        model = replace(kept, runs=runs, encoded_anew=self.encoded_anew, pool=self.digest)
        rows = np.arange(self.known, self.pool.rows_in_all)
        secret, texts = store.head().secret, self.pool.texts
        keys = {
            keyed(secret, "text", texts[row]): id
            for row, id in zip(rows.tolist(), layout.ids(rows).tolist(), strict=True)
        }
        written: int | None = submit(ChangePool(model, self.after, keys))
        return written


def not_its_pool(name: str) -> InvalidInput:
    """The error for a pool that a log has never been served with and that does not continue it."""
    return InvalidInput(
        f"{name} was started with another pool, so its arm ids mean other queries. Serve that "
        "pool, or pass a new store; nextquery take-over brings what was learnt into it."
    )
