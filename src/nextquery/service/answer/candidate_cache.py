"""Candidate sets of recent queries, so that a repeated query needs no scan of the pool."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from nextquery.catalogue.catalogue import Place
from nextquery.loop import Loop, Visit
from nextquery.selection import Candidates
from nextquery.service.model.catalogue import ServedCatalogue

Key = tuple[str | int, int | None]
"""The query (its arm, or its text) and the size of its set."""
Name = TypeVar("Name", bound=Hashable)


class PoolChanged(Exception):
    """What was selected is of a pool that is not served any more: it must be selected again."""


class Asked(NamedTuple):
    """A query whose candidates are wanted, with the paper's preferences or without."""

    place: Place
    visit: Visit
    normalise: bool = False


class CandidateCache:
    """Selects candidates, and keeps the newest `size` sets until the arms change.

    A set with the paper's preferences serves every request; one without is replaced by one with
    them when a request asks for them.

    Nothing is kept if a set depends on more than its query: with a random selection, and if
    sessions keep their sets.
    """

    def __init__(self, loop: Loop, size: int) -> None:
        self._loop, self._size = loop, size
        self._sets: OrderedDict[Key, Candidates] = OrderedDict()
        self._version, self._lock = -1, threading.Lock()
        self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._sets)

    def clear(self) -> None:
        """Forget every set."""
        self._sets.clear()

    def select(self, asked: Sequence[Asked], version: int) -> list[Candidates]:
        """Return the candidates of every place; those not cached share a scan of the pool.

        `version` is that of the catalogue: another one empties the cache.
        """
        if not self._loop.reusable:
            self.misses += len(asked)
            found = self._selected(dict(enumerate(asked)))
            return [found[number] for number in range(len(asked))]
        keys = [self._key(place, visit) for place, visit, _ in asked]
        missing: dict[Key, Asked] = {}
        with self._lock:
            if version != self._version:
                self.clear()
                self._version = version
            for key, one in zip(keys, asked, strict=True):
                known = self._sets.get(key)
                if known is None or (one.normalise and not known.normalised):
                    both = one.normalise or _normalise(missing.get(key))
                    missing[key] = one._replace(normalise=both)
            sets = {key: self._sets[key] for key in keys if key in self._sets}
            self.hits += len(keys) - len(missing)
            self.misses += len(missing)
        sets |= self._selected(missing)
        with self._lock:
            for key in keys if version == self._version else ():
                if not sets[key].missing:  # a partial set may be complete soon
                    self._sets[key] = sets[key]
                    self._sets.move_to_end(key)
            while len(self._sets) > self._size:
                self._sets.popitem(last=False)
        return [sets[key] for key in keys]

    def _key(self, place: Place, visit: Visit) -> Key:
        return place.text if place.arm is None else place.arm, self._loop.size(visit)

    def _selected(self, asked: Mapping[Name, Asked]) -> dict[Name, Candidates]:
        """Select, in one scan with preferences and one without; vectors only if they are used."""
        found: dict[Name, Candidates] = {}
        for normalise in (False, True):
            some = {name: one for name, one in asked.items() if one.normalise is normalise}
            if some:
                places = [one.place for one in some.values()]
                visits = [one.visit for one in some.values()]
                vectors = not self._loop.policy.needs_memory
                selected = self._loop.select(places, visits, normalise=normalise, vectors=vectors)
                found |= zip(some, selected, strict=True)
        return found


class Served(NamedTuple):
    """What answers are made from: the arms, the loop over them, and the sets of recent queries."""

    catalogue: ServedCatalogue
    loop: Loop
    cache: CandidateCache


def _normalise(asked: Asked | None) -> bool:
    return asked is not None and asked.normalise
