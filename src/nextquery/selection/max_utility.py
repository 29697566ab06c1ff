"""Max-utility selection: the candidates with the greatest utility for the current query."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from nextquery.arms.kernels import Ids
from nextquery.arms.scan import Band, Found, Sums
from nextquery.checks import one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.selection import preference
from nextquery.selection.optimize import greedi, greedy, lazy_greedy
from nextquery.selection.preference import Mass
from nextquery.selection.selector import LEAST_POSITIVE, Request, Selector, refuse_partial
from nextquery.selection.utility import FacilityLocation, LogDet, LogProbability, Utility

UTILITIES: dict[str, type[Utility]] = {
    "log-probability": LogProbability,
    "facility-location": FacilityLocation,
    "log-det": LogDet,
}
OPTIMIZERS = ("auto", "greedy", "lazy", "greedi")
SHARDS = "shards"
_MEMORY = 4 << 30  # bytes of cosines that facility location may use


@runtime_checkable
class InParts(Protocol):
    """What GreeDi uses of a pool that is spread over a cluster, beside `ArmPool`."""

    def greedi(
        self,
        vector: ArrayLike,
        k: int,
        *,
        utility: str,
        partitions: str | int,
        seed: int,
        epsilon: float,
        reading: str,
        exclude: Iterable[int],
        ground_set: Iterable[int],
        mass: Mass,
    ) -> list[int]:
        """Choose k arms of the ground set by Algorithm 3, each part where its arms are."""


class MaxUtility(Selector):
    """Select the k arms that maximise the utility of the candidate set (Eq. 7 and Algorithm 3).

    With the paper's utility, log-probability, the best set is the k most preferred arms (the
    objective is modular), found exactly in one pass over the pool:

    - reading ``example``: the k most similar arms, for any ε;
    - reading ``defined``: the best of S≥ weighted by π and of S< weighted by π̄, merged;
    - reading ``joint``: the k most similar arms of S≥; fewer if fewer reach ε;
    - reading ``one-side``: the k most similar arms of S≥ if it has k, else those of S<; if neither
      has k, all of the larger side. Arms already in C (Algorithm 2) decide the side.

    With the submodular utilities, an optimiser runs on the `shortlist` most preferred arms.

    Parameters
    ----------
    k : size of the candidate set, at least 1.
    epsilon : similarity threshold ε in [0, 1].
    utility : ``log-probability``, ``facility-location`` or ``log-det``.
    reading : ``example``, ``defined``, ``joint`` or ``one-side``.
    optimizer : ``greedy``, ``lazy`` or ``greedi`` (see `nextquery.selection.optimize`) runs
        on the shortlist for any utility. With log-probability each of them returns what the one
        pass returns. ``auto``, the default, is the one pass for log-probability, and lazy greedy
        otherwise. A set that is kept and grows (Algorithm 2) is grown by lazy greedy under
        ``greedi`` too.
    partitions : number of parts of GreeDi, at least 1, drawn at random with `seed`; or ``shards``,
        the shards of a pool on a cluster (a pool in this process is one). On a
        `nextquery.cluster.RayArmPool` the parts run on the cluster, with the same result.
    shortlist : how many arms an optimiser chooses from, at least k; None for all.
    seed : of the parts of GreeDi.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["cats", "kittens", "stocks"], [[1, 0], [3, 1], [0, 1]])
    >>> MaxUtility(k=1).select(pool, [1, 0], exclude=[0]).arms.tolist()
    [1]
    >>> MaxUtility(k=1, optimizer="greedi").select(pool, [1, 0], exclude=[0]).arms.tolist()
    [1]
    """

    def __init__(
        self,
        k: int = 250,
        epsilon: float = 0.5,
        utility: str = "log-probability",
        reading: str = "example",
        *,
        optimizer: str = "auto",
        partitions: int | str = 8,
        shortlist: int | None = 1000,
        seed: int = 0,
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.k = whole_number(k, "k", at_least=1)
        self.utility = one_of(utility, "utility", UTILITIES)
        self.optimizer = one_of(optimizer, "optimizer", OPTIMIZERS)
        if partitions != SHARDS:
            if isinstance(partitions, str):
                raise InvalidInput(
                    f"partitions must be a whole number of at least 1, or {SHARDS!r}; received "
                    f"{partitions!r}."
                )
            whole_number(partitions, "partitions", at_least=1)
        self.partitions = partitions
        if shortlist is not None:
            whole_number(shortlist, "shortlist", at_least=1)
            if not self._one_pass and shortlist < k:
                raise InvalidInput(f"shortlist must be at least k = {k}; received {shortlist}.")
        self.shortlist = shortlist

    @property
    def modular(self) -> bool:
        """Whether a set's utility is the sum over its arms, so that the best sets are nested."""
        return UTILITIES[self.utility].modular

    @property
    def orders_without_sums(self) -> bool:
        """Whether the order is that of the similarities."""
        return self._one_pass and self.reading == "example"

    @property
    def _one_pass(self) -> bool:
        return self.modular and self.optimizer == "auto"

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        assert request.k is not None
        if self._one_pass:
            return self._most_preferred(request)
        most = len(request.pool) if self.shortlist is None else self.shortlist
        wide = replace(request, k=max(most, request.k + max(map(len, request.keep))))
        sums, found = self._most_preferred(wide, of=request.k)
        return sums, [self._optimized(request, sums, i, row) for i, row in enumerate(found)]

    def _most_preferred(
        self, request: Request, *, of: int | None = None
    ) -> tuple[Sums, list[Found]]:
        """Return the most preferred arms that are not in C yet, ties by id, in one pass.

        `of` is the size of the set that they are for, if it is not as many.
        """
        similar = Band(request.k, low=max(self.epsilon, LEAST_POSITIVE))
        dissimilar = Band(request.k, low=LEAST_POSITIVE, high=self.epsilon)
        bands = {
            "example": [Band(request.k, low=LEAST_POSITIVE)],
            "defined": [similar, dissimilar],
            "joint": [similar],
            "one-side": [similar, dissimilar],
        }[self.reading]
        per_band, sums = request.scan(bands, self.epsilon)
        picked = []
        for i, parts in enumerate(per_band):
            if self.reading == "one-side":
                parts = [self._side(request, i, parts, of or request.k or 0)]
            ids, similarities, _ = parts[0]
            if len(parts) > 1:
                ids = np.concatenate([part.ids for part in parts])
                similarities = np.concatenate([part.similarities for part in parts])
                preferences = self._preferences(similarities, request.mass(sums, i))
                order = np.lexsort((ids, -preferences))
                ids, similarities = ids[order], similarities[order]
            fresh = request.not_kept(i, Found(ids, similarities))
            size = request.missing(i)
            found = Found(fresh.ids[:size], fresh.similarities[:size])
            one_sided = self.reading in ("joint", "one-side") and self.epsilon > 0
            uniform = self.reading != "joint" and sums.total[i] <= 0
            if uniform or not one_sided:
                found = self._filled(request, i, found, size)
            picked.append(found)
        return sums, picked

    def _side(self, request: Request, i: int, sides: Sequence[Found], size: int) -> Found:
        """Return the arms of the side of ε on which a set of this size is most probable.

        Every arm of S≥ is more similar than every arm of S<, so that is S≥ if it has enough arms.
        A set that already has arms stays on their side.
        """
        kept = request.keep[i]
        _, above = preference.clip(request.score(i, kept), self.epsilon)
        if len(kept) and above.all() == above.any():
            return sides[0] if above.all() else sides[1]
        similar, dissimilar = (len(request.not_kept(i, side).ids) for side in sides)
        return sides[0] if similar >= min(size - len(kept), dissimilar) else sides[1]

    def _filled(self, request: Request, i: int, found: Found, size: int) -> Found:
        """Fill up with the smallest ids if too few arms have a positive similarity: they tie."""
        if len(found.ids) >= size:
            return found
        taken = np.concatenate([request.exclude[i], request.keep[i], found.ids])
        count = min(size - len(found.ids), request.pool.count(taken))
        more: Ids = request.pool.live(np.arange(count), taken)
        return Found(
            np.concatenate([found.ids, more]),
            np.concatenate([found.similarities, request.score(i, more)]),
        )

    def _optimized(self, request: Request, sums: Sums, i: int, short: Found) -> Found:
        """Choose from the shortlist, or grow C from it, starting with the kept arms."""
        assert request.k is not None
        kept = request.keep[i]
        arms = np.concatenate([kept, short.ids])
        if not len(arms):
            return short
        similarities = np.concatenate([request.score(i, kept), short.similarities])
        # Ties go to the smaller position, so positions must follow the ids.
        order = np.argsort(arms)
        arms, similarities = arms[order], similarities[order]
        if self.optimizer == "greedi" and not len(kept) and isinstance(request.pool, InParts):
            refuse_partial(sums.missing)
            chosen = self._on_cluster(request, request.pool, sums, i, arms)
        else:
            preferences = self._preferences(similarities, request.mass(sums, i))
            self._check_memory(len(arms))
            utility = UTILITIES[self.utility].of(preferences, request.pool.rows(arms))
            start = np.flatnonzero(np.isin(arms, kept)).tolist()
            chosen = self._choose(utility, request.k, start)[len(start) :]
        return Found(arms[chosen], similarities[chosen])

    def _choose(self, utility: Utility, k: int, start: list[int]) -> list[int]:
        everything = range(utility.n)
        if self.optimizer == "greedi" and not start:
            parts = 1 if isinstance(self.partitions, str) else self.partitions
            return greedi(utility, everything, k, parts, self.seed)
        optimizer = greedy if self.optimizer == "greedy" else lazy_greedy
        return optimizer(utility, everything, k, start=start)

    def _on_cluster(
        self, request: Request, pool: InParts, sums: Sums, i: int, arms: Ids
    ) -> list[int]:
        """Return the positions of the arms that the cluster's GreeDi chooses."""
        assert request.k is not None
        ids = pool.greedi(
            request.anchors[i],
            request.k,
            utility=self.utility,
            partitions=self.partitions,
            seed=self.seed,
            epsilon=self.epsilon,
            reading=self.reading,
            exclude=request.exclude[i],
            ground_set=arms,
            mass=request.mass(sums, i),
        )
        places: list[int] = np.searchsorted(arms, ids).tolist()
        return places

    def _check_memory(self, arms: int) -> None:
        needed = 8 * arms * arms
        if self.utility == "facility-location" and needed > _MEMORY:
            raise InvalidInput(
                f"facility-location over {arms:,} arms needs {needed / 2**30:.0f} GiB for their "
                f"cosines, and {_MEMORY / 2**30:.0f} are allowed. Pass a shortlist, or choose "
                "from all arms on a cluster (nextquery.cluster.greedi)."
            )
