"""Candidate sets of recent queries, so that a repeated query needs no scan of the pool."""

from collections import OrderedDict
from collections.abc import Sequence

from nextquery.catalogue import Place
from nextquery.loop import Loop
from nextquery.select import Candidates
from nextquery.visit import Visit

Key = tuple[str | int, int | None]
"""The query (its arm, or its text) and the size of its set."""


class CandidateCache:
    """Selects candidates, and keeps the newest `size` sets until the arms change.

    Nothing is kept if a set depends on more than its query: with a random selection, and if
    sessions keep their sets.
    """

    def __init__(self, loop: Loop, size: int) -> None:
        self._loop, self._size = loop, size
        self._sets: OrderedDict[Key, Candidates] = OrderedDict()
        self._version = -1
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._sets)

    def clear(self) -> None:
        """Forget every set."""
        self._sets.clear()

    def select(
        self, places: Sequence[Place], visits: Sequence[Visit], version: int
    ) -> list[Candidates]:
        """Return the candidates of every place; those not cached share one scan of the pool.

        `version` is that of the catalogue: another one empties the cache.
        """
        if not self._loop.reusable:
            self.misses += len(places)
            return self._selected(list(zip(places, visits, strict=True)))
        if version != self._version:
            self.clear()
            self._version = version
        asked = list(zip(places, visits, strict=True))
        keys = [self._key(place, visit) for place, visit in asked]
        missing = {k: a for k, a in zip(keys, asked, strict=True) if k not in self._sets}
        sets = {key: self._sets[key] for key in keys if key in self._sets}
        self.hits += len(keys) - len(missing)
        self.misses += len(missing)
        sets |= dict(zip(missing, self._selected(list(missing.values())), strict=True))
        for key in keys:
            if not sets[key].missing:  # a partial set may be complete soon
                self._sets[key] = sets[key]
                self._sets.move_to_end(key)
        while len(self._sets) > self._size:
            self._sets.popitem(last=False)
        return [sets[key] for key in keys]

    def _key(self, place: Place, visit: Visit) -> Key:
        return place.text if place.arm is None else place.arm, self._loop.size(visit)

    def _selected(self, asked: Sequence[tuple[Place, Visit]]) -> list[Candidates]:
        """Select, and drop the vectors if the policy does not use them."""
        selected = self._loop.select([place for place, _ in asked], [visit for _, visit in asked])
        if not self._loop.policy.needs_memory:
            return selected
        return [candidates.without_vectors() for candidates in selected]
