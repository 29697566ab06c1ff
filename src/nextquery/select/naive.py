"""The two selections the paper calls naive: a threshold on preference, and sampling by it."""

import numpy as np

from nextquery.arms.kernels import Ids
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
        anchors = range(len(request.anchors))
        return sums, [self._sample(request, request.mass(sums, i), i) for i in anchors]

    def _sample(self, request: Request, mass: Mass, i: int) -> Found:
        taken = np.concatenate([request.exclude[i], request.keep[i]])
        times = request.rng.standard_exponential(request.pool.rows_in_all)
        arms = request.pool.live(np.arange(request.pool.count(taken)), taken)
        wanted = request.missing(i)
        if mass.total > 0 and wanted < len(arms):
            arms = self._possible(request, mass, i, arms, times, wanted)
        similarities = request.score(i, arms)
        with np.errstate(divide="ignore"):
            arrivals = times[arms] / self._preferences(similarities, mass)
        first = np.lexsort((times[arms], arrivals))[:wanted]
        return Found(arms[first], similarities[first])

    def _possible(
        self, request: Request, mass: Mass, i: int, arms: Ids, times: Floats, wanted: int
    ) -> Ids:
        """The arms that may be among the earliest, judged by float32 products and their error."""
        products = request.pool.products(request.anchors[i])[arms].astype(np.float64)
        error = error_bound(request.pool.dim)
        sides = [_slope(mass, self.reading, similar=similar) for similar in (True, False)]
        surely, surely_not = products >= self.epsilon + error, products < self.epsilon - error
        fastest = np.select([surely, surely_not], sides, max(sides)) * (products + error)
        slowest = np.select([surely, surely_not], sides, min(sides)) * (products - error)
        with np.errstate(divide="ignore"):
            latest = times[arms] / np.maximum(slowest, 0)
            earliest = times[arms] / np.maximum(fastest, 0)
        possible: Ids = arms[earliest <= np.partition(latest, wanted - 1)[wanted - 1]]
        return possible


def _slope(mass: Mass, reading: str, *, similar: bool) -> float:
    """P per unit of similarity on one side of ε."""
    return float(of_mass(np.ones(1), np.array([similar]), mass, reading)[0])
