"""A random order of the arms that depends on the seed and on nothing else."""

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
MOST = 64
"""Sets of arms whose places are remembered."""


def ranks(arms: Ids, seed: int, salt: int = 0) -> NDArray[np.uint64]:
    """Return a pseudo-random number for each arm; the arms in order of it are in random order.

    An arm keeps its number when other candidates come and go. So the k arms with the least numbers
    are k arms drawn without replacement, for any set of candidates and without a record of it.
    `salt` makes another order. The numbers are those of the SplitMix64 generator.

    >>> ranks(np.array([5, 6, 7, 8, 9]), seed=1).argsort().tolist()
    [2, 3, 4, 0, 1]
    >>> ranks(np.array([6, 7, 9]), seed=1).argsort().tolist()
    [1, 2, 0]
    """
    start = np.array([seed & 0xFFFFFFFF, salt & 0xFFFFFFFF], np.uint64)
    key = _mixed(_mixed(start[:1]) ^ start[1:])
    return _mixed(_mixed(arms.astype(np.uint64)) ^ key)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


class Draws:
    """Draws among candidates by `ranks`; remembers the last draw, since candidates often repeat.

    >>> draws, arms = Draws(seed=0), np.arange(100)
    >>> few = draws.places(arms, 3)
    >>> len(set(few.tolist())), draws.places(arms, 5)[:3].tolist() == few.tolist()
    (3, True)
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._last: dict[int, tuple[Ids, int, Ids]] = {}
        self._sorted: tuple[Ids, Ids] | None = None
        self._found: dict[int, tuple[Ids, Ids, Ids, NDArray[np.bool_]]] = {}

    def places(self, arms: Ids, k: int, salt: int = 0) -> Ids:
        """Return the places of k of the arms, drawn without replacement, in random order."""
        known = self._last.get(salt)
        if known is not None and known[0] is arms and known[1] == k:
            return known[2]
        numbers = ranks(arms, self.seed, salt)
        if k < len(arms):
            some = np.argpartition(numbers, k - 1)[:k]
            found = some[np.argsort(numbers[some])]
        else:
            found = np.argsort(numbers)
        self._last[salt] = (arms, k, found)
        return found

    def find(self, arms: Ids, wanted: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the places of the wanted arms that are among `arms`, and which of them are."""
        found = self._found.get(id(wanted))
        if found is not None and found[0] is arms and found[1] is wanted:
            return found[2], found[3]
        known = self._sorted
        if known is None or known[0] is not arms:
            known = self._sorted = (arms, np.argsort(arms))
        order = known[1]
        at = np.minimum(np.searchsorted(arms, wanted, sorter=order), len(arms) - 1)
        places = order[at]
        there = arms[places] == wanted
        if len(self._found) >= MOST:
            self._found.clear()
        self._found[id(wanted)] = (arms, wanted, places[there], there)
        return places[there], there

    def one_of(self, places: Ids, round_: int) -> int:
        """Return one of some places, as if at random; the same one for the same round."""
        if len(places) == 1:
            return int(places[0])
        return int(places[ranks(places, self.seed, -1 - round_).argmin()])
