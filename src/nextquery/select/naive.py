"""The two selections that the paper calls naive: thresholding and sampling by preference."""

from collections.abc import Sequence

import numpy as np

from nextquery.arms.scan import Band, Found, Sums
from nextquery.checks import number, whole_number
from nextquery.preference import Mass, of_mass
from nextquery.select.base import Request, Selector
from nextquery.select.race import Race, Runners, possible

_TOGETHER = 256  # anchors per request to all parts
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
        for start in range(0, len(races), _TOGETHER):
            batch = slice(start, start + _TOGETHER)
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
