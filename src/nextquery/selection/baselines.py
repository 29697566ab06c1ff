"""Baseline selections: random arms, zooming, and threshold or sampling by preference.

- Random selection is the usual choice for bandits with too many arms.
- Zooming takes every arm that is similar enough to the current query.
- Thresholding and sampling by preference are the two selections that the paper calls naive.

`Race` makes sampling work in parts: each part of a pool finds its possible winners on its own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.scan import Band, Blocks, Found, RowRange, Sums, error_bound
from nextquery.checks import number, whole_number
from nextquery.selection.preference import Mass, of_mass
from nextquery.selection.selector import Request, Selector


class Race(NamedTuple):
    """A race for the earliest arms. Every arm's time depends only on `seed` and its id.

    So a part of the pool can tell which of its arms may win, without the other parts.
    """

    anchor: Vectors
    seed: int
    taken: Ids  # sorted; excluded from the race
    size: int
    epsilon: float
    above: float  # P per unit of similarity from ε on
    under: float  # and below
    uniform: bool  # P is the same for all arms

    def times(self, first: int, arms: int) -> Floats:
        """Return exponential times of rate 1 for consecutive ids."""
        counter, skipped = divmod(first, 4)  # Philox gives four numbers a step
        numbers = np.random.Generator(np.random.Philox(key=self.seed).advance(counter))
        return -np.log(1 - numbers.random(skipped + arms)[skipped:])

    def bounds(self, part: RowRange) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of P for every row of a part, from float32 products."""
        if self.uniform:
            return (np.ones(len(part.rows)),) * 2
        products = np.concatenate([rows @ self.anchor for rows in part.rows.segments()])
        near, error = products.astype(np.float64), error_bound(part.rows.dim)
        clearly_near, clearly_far = near >= self.epsilon + error, near < self.epsilon - error
        sides = self.above, self.under
        least = np.select([clearly_near, clearly_far], sides, min(sides)) * (near - error)
        most = np.select([clearly_near, clearly_far], sides, max(sides)) * (near + error)
        return np.maximum(least, 0), np.maximum(most, 0)


class Runners(NamedTuple):
    """Arms that may be among the earliest, with their times and exact similarities."""

    arms: Ids
    times: Floats
    similarities: Floats


def possible(part: RowRange, races: Sequence[Race]) -> list[Runners]:
    """Return, for every race, the arms of this part that may be among the earliest."""
    blocks = Blocks(part.rows.segments(), part.removed)
    runners = []
    for race in races:
        rows, times = _runners(part, race)
        runners.append(Runners(rows + part.first, times, blocks.score(rows, race.anchor)))
    return runners


def _runners(part: RowRange, race: Race) -> tuple[Ids, Floats]:
    ends = np.searchsorted(race.taken, (part.first, part.first + len(part.rows)))
    takes_part = np.ones(len(part.rows), bool)
    takes_part[part.removed], takes_part[race.taken[slice(*ends)] - part.first] = False, False
    rows = np.flatnonzero(takes_part)
    times = race.times(part.first, len(part.rows))[rows]
    if race.size < len(rows):
        with np.errstate(divide="ignore"):
            latest, earliest = (times / bound[rows] for bound in race.bounds(part))
        may = not_behind(earliest, latest, times, race.size)
        rows, times = rows[may], times[may]
    return rows, times


def not_behind(earliest: Floats, latest: Floats, times: Floats, size: int) -> NDArray[np.bool_]:
    """Return which arms may be among the first `size`; among arms with P = 0, times decide."""
    if size == 0:
        return np.zeros(len(times), bool)
    never = np.isinf(latest)
    arriving = len(times) - int(never.sum())
    may: NDArray[np.bool_]
    if size <= arriving:
        may = earliest <= np.partition(latest, size - 1)[size - 1]
    else:
        rest = size - arriving
        may = np.isfinite(earliest) | (times <= np.partition(times[never], rest - 1)[rest - 1])
    return may


_ANCHORS_PER_REQUEST = 256  # anchors per request to all parts
_SLACK = 1 - 1e-9  # collect slightly more than the bound, then compare exact preferences


class PreferenceThreshold(Selector):
    """Select all arms with P ≥ times_uniform / n.

    The bound is a multiple of the uniform 1/n because P shrinks as the pool grows.

    Parameters
    ----------
    times_uniform : how many times likelier than a uniform draw an arm must be, at least 0.
    epsilon, reading : how preferences are computed.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> PreferenceThreshold(1.5).select(pool, [1, 0]).arms.tolist()
    [0]
    """

    def __init__(
        self,
        times_uniform: float = 2.0,
        *,
        epsilon: float = 0.5,
        reading: str = "example",
        seed: int = 0,
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.times_uniform = number(times_uniform, "times_uniform", low=0)

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        _, sums = request.scan([], self.epsilon)
        masses = [request.mass(sums, i) for i in range(len(request.anchors))]
        above = [max(self.epsilon, self._reach(mass, similar=True)) for mass in masses]
        under = [self._reach(mass, similar=False) for mass in masses]
        bands = [Band(None, low=above), Band(None, low=under, high=self.epsilon)]
        per_band, again = request.scan(bands, self.epsilon)
        picked = []
        for i, (similar, dissimilar) in enumerate(per_band):
            ids = np.concatenate([similar.ids, dissimilar.ids])
            similarities = np.concatenate([similar.similarities, dissimilar.similarities])
            bound = self.times_uniform / max(masses[i].arms, 1)
            passes = self._preferences(similarities, masses[i]) >= bound
            picked.append(request.not_kept(i, Found(ids[passes], similarities[passes])))
        return sums._replace(missing=max(sums.missing, again.missing)), picked

    def _reach(self, mass: Mass, *, similar: bool) -> float:
        """Return the least similarity at which an arm on this side of ε may pass."""
        if self.times_uniform == 0 or mass.total <= 0:
            return -np.inf
        slope = _slope(mass, self.reading, similar=similar)
        return self.times_uniform / mass.arms / slope * _SLACK if slope > 0 else np.inf


class PreferenceSample(Selector):
    """Sample k arms by preference, without replacement.

    Every arm draws an exponential time with rate P; the k earliest are the sample (Efraimidis and
    Spirakis 2006). Arms with preference 0 are used only when no others are left.

    Parameters
    ----------
    k : how many arms, at least 1.
    epsilon, reading : how preferences are computed.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> sorted(PreferenceSample(k=2).select(pool, [1, 0]).arms.tolist())
    [0, 1]
    """

    draws = True

    def __init__(
        self, k: int = 250, *, epsilon: float = 0.5, reading: str = "example", seed: int = 0
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.k = whole_number(k, "k", at_least=1)

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        _, sums = request.scan([], self.epsilon)
        masses = [request.mass(sums, i) for i in range(len(request.anchors))]
        races = [self._race(request, mass, i) for i, mass in enumerate(masses)]
        picked, missing = list[Found](), sums.missing
        for start in range(0, len(races), _ANCHORS_PER_REQUEST):
            batch = slice(start, start + _ANCHORS_PER_REQUEST)
            parts, unavailable = request.pool.on_parts(possible, races[batch])
            missing = max(missing, unavailable)
            for race, mass, runners in zip(
                races[batch], masses[batch], zip(*parts, strict=True), strict=True
            ):
                picked.append(self._first(race, mass, runners))
        return sums._replace(missing=missing), picked

    def _race(self, request: Request, mass: Mass, i: int) -> Race:
        return Race(
            request.anchors[i],
            int(request.rngs[i].integers(1 << 63)),
            np.union1d(request.exclude[i], request.keep[i]),
            request.missing(i),
            self.epsilon,
            _slope(mass, self.reading, similar=True),
            _slope(mass, self.reading, similar=False),
            mass.total <= 0,
        )

    def _first(self, race: Race, mass: Mass, runners: Sequence[Runners]) -> Found:
        """Return the sample, from the runners of all parts."""
        columns = (np.concatenate(column) for column in zip(*runners, strict=True))
        arms, times, similarities = columns
        with np.errstate(divide="ignore"):
            arrivals = times / self._preferences(similarities, mass)
        first = np.lexsort((times, arrivals))[: race.size]
        return Found(arms[first], similarities[first])


def _slope(mass: Mass, reading: str, *, similar: bool) -> float:
    """P per unit of similarity on one side of ε."""
    return float(of_mass(np.ones(1), np.array([similar]), mass, reading)[0])


class RandomSelection(Selector):
    """Draw k arms uniformly from the pool: the baseline that the paper argues against.

    Parameters
    ----------
    k : how many arms, at least 1.
    epsilon, reading : how the candidates' preferences are computed.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> len(RandomSelection(k=2).select(pool, [1, 0]))
    2
    """

    draws = True

    def __init__(
        self, k: int = 250, *, epsilon: float = 0.5, reading: str = "example", seed: int = 0
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.k = whole_number(k, "k", at_least=1)

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        _, sums = request.scan([], self.epsilon)
        picked = []
        for i in range(len(request.anchors)):
            taken = np.concatenate([request.exclude[i], request.keep[i]])
            available = request.pool.count(taken)
            count = min(request.missing(i), available)
            places = request.rngs[i].choice(available, count, replace=False)
            arms = request.pool.live(places, taken)
            picked.append(Found(arms, request.score(i, arms)))
        return sums, picked


class Zooming(Selector):
    """Select all arms with a similarity of at least `threshold` (after Kleinberg et al. 2019).

    If there is none, select the nearest arm.

    Parameters
    ----------
    threshold : in [−1, 1].
    epsilon, reading : how the candidates' preferences are computed.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> Zooming(threshold=0.7).select(pool, [1, 0]).arms.tolist()
    [0, 1]
    """

    def __init__(
        self,
        threshold: float = 0.5,
        *,
        epsilon: float = 0.5,
        reading: str = "example",
        seed: int = 0,
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.threshold = number(threshold, "threshold", low=-1, high=1)

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        per_band, sums = request.scan([Band(None, low=self.threshold), Band(1)], self.epsilon)
        near = [inside if len(inside.ids) else nearest for inside, nearest in per_band]
        return sums, [request.not_kept(i, found) for i, found in enumerate(near)]
