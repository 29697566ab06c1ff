"""Max-utility selection: the candidates with the greatest utility for the current query."""

from dataclasses import replace

import numpy as np

from nextquery.arms.kernels import Ids
from nextquery.arms.scan import Sums
from nextquery.arms.search import Band, Found
from nextquery.checks import one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.optimize import lazy_greedy
from nextquery.select.base import LEAST_POSITIVE, Request, Selector
from nextquery.utility import FacilityLocation, LogDet, LogProbability, Utility

UTILITIES: dict[str, type[Utility]] = {
    "log-probability": LogProbability,
    "facility-location": FacilityLocation,
    "log-det": LogDet,
}


class MaxUtility(Selector):
    """Select the k arms that maximise the utility of the candidate set (Eq. 4 and Algorithm 3).

    With the paper's utility, log-probability, the best set is the k most preferred arms (the
    objective is modular), found exactly in one pass over the pool:

    - reading ``example``: the k most similar arms, for any ε;
    - reading ``defined``: the best of S≥ weighted by π and of S< weighted by π̄, merged;
    - reading ``joint``: the k most similar arms of S≥; fewer if fewer reach ε.

    With the submodular utilities, lazy greedy runs on the `shortlist` most preferred arms.

    Parameters
    ----------
    k : size of the candidate set, at least 1.
    epsilon : similarity threshold ε in [0, 1].
    utility : ``log-probability``, ``facility-location`` or ``log-det``.
    reading : ``example``, ``defined`` or ``joint``.
    shortlist : how many arms the submodular utilities choose from, at least k.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["cats", "kittens", "stocks"], [[1, 0], [3, 1], [0, 1]])
    >>> MaxUtility(k=1).select(pool, [1, 0], exclude=[0]).arms.tolist()
    [1]
    """

    def __init__(
        self,
        k: int = 250,
        epsilon: float = 0.5,
        utility: str = "log-probability",
        reading: str = "example",
        *,
        shortlist: int = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.k = whole_number(k, "k", at_least=1)
        self.utility = one_of(utility, "utility", UTILITIES)
        self.shortlist = whole_number(shortlist, "shortlist", at_least=1)
        if not UTILITIES[utility].modular and shortlist < k:
            raise InvalidInput(f"shortlist must be at least k = {k}; received {shortlist}.")

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        assert request.k is not None
        if UTILITIES[self.utility].modular:
            return self._most_preferred(request)
        wide = replace(request, k=max(self.shortlist, request.k + max(map(len, request.keep))))
        sums, found = self._most_preferred(wide)
        return sums, [self._greedy(request, sums, i, row) for i, row in enumerate(found)]

    def _most_preferred(self, request: Request) -> tuple[Sums, list[Found]]:
        """Return the most preferred arms that are not in C yet, ties by id, in one pass."""
        similar = Band(request.k, low=max(self.epsilon, LEAST_POSITIVE))
        bands = {
            "example": [Band(request.k, low=LEAST_POSITIVE)],
            "defined": [similar, Band(request.k, low=LEAST_POSITIVE, high=self.epsilon)],
            "joint": [similar],
        }[self.reading]
        per_band, sums = request.scan(bands, self.epsilon)
        picked = []
        for i, parts in enumerate(per_band):
            ids = np.concatenate([part.ids for part in parts])
            similarities = np.concatenate([part.similarities for part in parts])
            if len(parts) > 1:
                preferences = self._preferences(similarities, request.mass(sums, i))
                order = np.lexsort((ids, -preferences))
                ids, similarities = ids[order], similarities[order]
            fresh = request.not_kept(i, Found(ids, similarities))
            size = request.missing(i)
            found = Found(fresh.ids[:size], fresh.similarities[:size])
            picked.append(self._filled(request, i, found, size))
        return sums, picked

    def _filled(self, request: Request, i: int, found: Found, size: int) -> Found:
        """Fill up with the smallest ids if too few arms have a positive similarity: they tie."""
        in_s = self.reading != "joint" or self.epsilon == 0
        if len(found.ids) >= size or not in_s:
            return found
        taken = np.concatenate([request.exclude[i], request.keep[i], found.ids])
        count = min(size - len(found.ids), request.pool.count(taken))
        more: Ids = request.pool.live(np.arange(count), taken)
        return Found(
            np.concatenate([found.ids, more]),
            np.concatenate([found.similarities, request.score(i, more)]),
        )

    def _greedy(self, request: Request, sums: Sums, i: int, short: Found) -> Found:
        """Grow C from the shortlist by lazy greedy, starting with the kept arms."""
        assert request.k is not None
        kept = request.keep[i]
        arms = np.concatenate([kept, short.ids])
        similarities = np.concatenate([request.score(i, kept), short.similarities])
        preferences = self._preferences(similarities, request.mass(sums, i))
        if not len(arms):
            return short
        # Ties go to the smaller position, so positions must follow the ids.
        order = np.argsort(arms)
        utility = UTILITIES[self.utility].of(preferences[order], request.pool.rows(arms[order]))
        start = np.flatnonzero(np.isin(arms[order], kept)).tolist()
        chosen = lazy_greedy(utility, range(len(arms)), request.k, start=start)
        new = order[chosen[len(start) :]]
        return Found(arms[new], similarities[new])
