"""Candidate sets of recent queries, so that a repeated query needs no scan of the pool."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nextquery.catalogue import Place
from nextquery.loop import Loop
from nextquery.select import Candidates


class CandidateCache:
    """Selects candidates, and keeps the newest `size` sets until the arms change."""

    def __init__(self, loop: Loop, size: int) -> None:
        self._loop, self._size = loop, size
        self._sets: OrderedDict[str | int, Candidates] = OrderedDict()
        self._version = -1
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._sets)

    def clear(self) -> None:
        """Forget every set."""
        self._sets.clear()

    def select(self, places: Sequence[Place], version: int) -> list[Candidates]:
        """Return the candidates of every place; those not cached share one scan of the pool.

        `version` is that of the catalogue: another one empties the cache.
        """
        if version != self._version:
            self.clear()
            self._version = version
        keys = [place.text if place.arm is None else place.arm for place in places]
        missing = {k: p for k, p in zip(keys, places, strict=True) if k not in self._sets}
        sets = {key: self._sets[key] for key in keys if key in self._sets}
        self.hits += len(keys) - len(missing)
        self.misses += len(missing)
        selected = self._loop.select(list(missing.values()))
        sets |= dict(zip(missing, map(self._reduced, selected), strict=True))
        for key in keys:
            if not sets[key].missing:  # a partial set may be complete soon
                self._sets[key] = sets[key]
                self._sets.move_to_end(key)
        while len(self._sets) > self._size:
            self._sets.popitem(last=False)
        return [sets[key] for key in keys]

    def _reduced(self, candidates: Candidates) -> Candidates:
        """Drop the vectors, nine tenths of a set, if the policy does not use them."""
        if not self._loop.policy.needs_memory:
            return candidates
        return replace(candidates, vectors=np.empty((len(candidates), 0), np.float32))
