"""The two selections the paper calls naive: a threshold on preference, and sampling by it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.kernels import Ids, Vectors
from nextquery.arms.rows import Part
from nextquery.arms.scan import Sums
from nextquery.arms.search import Band, Found, error_bound
from nextquery.checks import number, whole_number
from nextquery.preference import Mass, of_mass
from nextquery.select.base import Floats, Request, Selector

_SLACK = 1 - 1e-9  # collect a little more than the bound, then decide by the preference itself


class PreferenceThreshold(Selector):
    """All arms with P ≥ times_uniform / n.

    The bound is a multiple of the uniform 1/n because P itself shrinks with the pool.

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
        per_band, _ = request.scan(bands, self.epsilon)
        picked = []
        for i, (similar, dissimilar) in enumerate(per_band):
            ids = np.concatenate([similar.ids, dissimilar.ids])
            similarities = np.concatenate([similar.similarities, dissimilar.similarities])
            bound = self.times_uniform / max(masses[i].arms, 1)
            passes = self._preferences(similarities, masses[i]) >= bound
            picked.append(request.not_kept(i, Found(ids[passes], similarities[passes])))
        return sums, picked

    def _reach(self, mass: Mass, *, similar: bool) -> float:
        """The similarity from which an arm on this side of ε may pass."""
        if self.times_uniform == 0 or mass.total <= 0:
            return -np.inf
        slope = _slope(mass, self.reading, similar=similar)
        return self.times_uniform / mass.arms / slope * _SLACK if slope > 0 else np.inf


class PreferenceSample(Selector):
    """k arms sampled by their preference, without replacement.

    Every arm draws an exponential time with rate P; the k earliest are the sample (Efraimidis and
    Spirakis 2006). Arms of preference 0 come only when the others are used up.

    Parameters
    ----------
    k : how many arms, at least 1.
    epsilon, reading : how preferences are computed.

    >>> from nextquery import ArmPool
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> sorted(PreferenceSample(k=2).select(pool, [1, 0]).arms.tolist())
    [0, 1]
    """

    def __init__(
        self, k: int = 250, *, epsilon: float = 0.5, reading: str = "example", seed: int = 0
    ) -> None:
        super().__init__(epsilon=epsilon, reading=reading, seed=seed)
        self.k = whole_number(k, "k", at_least=1)

    def _pick(self, request: Request) -> tuple[Sums, list[Found]]:
        _, sums = request.scan([], self.epsilon)
        picked = [self._sample(request, request.mass(sums, i), i) for i in range(len(sums.total))]
        return sums._replace(missing=max([sums.missing, *(f.missing for f in picked)])), picked

    def _sample(self, request: Request, mass: Mass, i: int) -> Found:
        race = Race(
            request.anchors[i],
            int(request.rng.integers(1 << 63)),
            np.union1d(request.exclude[i], request.keep[i]),
            request.missing(i),
            self.epsilon,
            _slope(mass, self.reading, similar=True),
            _slope(mass, self.reading, similar=False),
            mass.total <= 0,
        )
        parts, missing = request.pool.on_parts(_possible, race)
        arms, times = (np.concatenate(column) for column in zip(*parts, strict=True))
        similarities = request.score(i, arms)
        with np.errstate(divide="ignore"):
            arrivals = times / self._preferences(similarities, mass)
        first = np.lexsort((times, arrivals))[: race.wanted]
        return Found(arms[first], similarities[first], missing)


class Race(NamedTuple):
    """Who is among the earliest: every arm's time follows from `seed` and its id alone.

    So a part of the pool can tell, without the others, which of its arms may be.
    """

    anchor: Vectors
    seed: int
    taken: Ids  # sorted; they do not take part
    wanted: int
    epsilon: float
    above: float  # P per unit of similarity from ε on
    under: float  # and below
    uniform: bool  # P is the same for all arms

    def times(self, first: int, arms: int) -> Floats:
        """Exponential times of rate 1 for a run of ids."""
        counter, skipped = divmod(first, 4)  # Philox gives four numbers a step
        numbers = np.random.Generator(np.random.Philox(key=self.seed).advance(counter))
        return -np.log(1 - numbers.random(skipped + arms)[skipped:])

    def bounds(self, part: Part) -> tuple[Floats, Floats]:
        """P of every row of a part is at least and at most so much, judged by float32 products."""
        if self.uniform:
            return (np.ones(len(part.rows)),) * 2
        products = np.concatenate([rows @ self.anchor for rows in part.rows.segments()])
        near, error = products.astype(np.float64), error_bound(part.rows.dim)
        surely, surely_not = near >= self.epsilon + error, near < self.epsilon - error
        sides = self.above, self.under
        least = np.select([surely, surely_not], sides, min(sides)) * (near - error)
        most = np.select([surely, surely_not], sides, max(sides)) * (near + error)
        return np.maximum(least, 0), np.maximum(most, 0)


def _possible(part: Part, race: Race) -> tuple[Ids, Floats]:
    """The arms of a part that may be among the earliest, and their times."""
    taken = race.taken[
        slice(*np.searchsorted(race.taken, (part.first, part.first + len(part.rows))))
    ]
    takes_part = np.ones(len(part.rows), bool)
    takes_part[part.removed], takes_part[taken - part.first] = False, False
    rows = np.flatnonzero(takes_part)
    times = race.times(part.first, len(part.rows))[rows]
    if race.wanted < len(rows):
        with np.errstate(divide="ignore"):
            latest, earliest = (times / bound[rows] for bound in race.bounds(part))
        may = _not_behind(earliest, latest, times, race.wanted)
        rows, times = rows[may], times[may]
    return rows + part.first, times


def _not_behind(earliest: Floats, latest: Floats, times: Floats, wanted: int) -> NDArray[np.bool_]:
    """Who is not surely behind `wanted` others; where nobody arrives, times decide."""
    if wanted == 0:
        return np.zeros(len(times), bool)
    never = np.isinf(latest)
    arriving = len(times) - int(never.sum())
    may: NDArray[np.bool_]
    if wanted <= arriving:
        may = earliest <= np.partition(latest, wanted - 1)[wanted - 1]
    else:
        rest = wanted - arriving
        may = np.isfinite(earliest) | (times <= np.partition(times[never], rest - 1)[rest - 1])
    return may


def _slope(mass: Mass, reading: str, *, similar: bool) -> float:
    """P per unit of similarity on one side of ε."""
    return float(of_mass(np.ones(1), np.array([similar]), mass, reading)[0])
