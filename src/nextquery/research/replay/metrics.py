"""Metrics of a run: means with bootstrap intervals, paired comparisons, and prefetching.

Intervals are over anchors, and comparisons are on the same anchors.

Prefetching has two shares: next queries foreseen, and fetched queries that were wasted. A client
may fetch the recommended queries before anybody asks for them. It foresees a step if the next
query is among them; all other queries fetched there are wasted. Only recommended queries count:
offering nothing wastes nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.research.replay.cells import generator
from nextquery.sessions import Floats, Ids

RESAMPLES = 2000
_AT_ONCE = 200


class Interval(NamedTuple):
    """A mean and its 95% bootstrap interval."""

    mean: float
    low: float
    high: float


def bands(values: Floats, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Return the mean of each column over the rows (anchors), with 95% percentile bootstrap bounds.

    >>> mean, low, high = bands(np.array([[0.0, 1.0], [1.0, 1.0]]))
    >>> mean.tolist(), low.tolist(), high.tolist()
    ([0.5, 1.0], [0.0, 1.0], [1.0, 1.0])
    """
    rows = len(values)
    rng = generator(seed, "bootstrap", rows)
    means = []
    for start in range(0, RESAMPLES, _AT_ONCE):
        drawn = rng.integers(rows, size=(min(_AT_ONCE, RESAMPLES - start), rows))
        counts = np.stack([np.bincount(row, minlength=rows) for row in drawn]).astype(np.float64)
        # Not a BLAS product: its sums would depend on the number of threads.
        means.append(np.einsum("bn,nr->br", counts, values) / rows)
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
    return values.mean(axis=0), low, high


def difference(first: Floats, second: Floats, seed: int = 0) -> Interval:
    """Return the mean of first − second over the same anchors, with its 95% bootstrap interval.

    Anchors differ far more than algorithms, so only the paired interval can separate two good
    algorithms.

    >>> difference(np.array([0.1, 0.8, 0.3]), np.array([0.2, 0.9, 0.4])).high < 0
    True
    """
    mean, low, high = bands((first - second)[:, None], seed)
    return Interval(float(mean[0]), float(low[0]), float(high[0]))


def interval(values: Floats, seed: int = 0) -> Interval:
    """Return the mean of the values, with its 95% bootstrap interval."""
    return difference(values, np.zeros_like(values), seed)


Flags = NDArray[np.bool_]
SIZES = (1, 2, 3, 5, 10, 20)
"""How many of the first offers are counted: the values of m."""


class Prefetched(NamedTuple):
    """Over all steps: the share foreseen, the share of offers wasted, and offers per step."""

    foreseen: float
    wasted: float
    offered: float


class PrefetchCurve(NamedTuple):
    """The same for every threshold, from the highest: only what is at least as probable counts."""

    at_least: Floats
    foreseen: Floats
    wasted: Floats
    offered: Floats


def counted(hits: Flags, offered: Ids) -> Prefetched:
    """Return the shares, from whether each step was foreseen and how many queries it offered.

    >>> counted(np.array([True, False, False]), np.array([2, 1, 0]))
    Prefetched(foreseen=0.3333333333333333, wasted=0.6666666666666667, offered=1.0)
    >>> counted(np.array([False]), np.array([0])).wasted
    0.0
    """
    steps, right, all_offers = max(1, len(hits)), int(hits.sum()), int(offered.sum())
    wasted = 1.0 - right / all_offers if all_offers else 0.0
    return Prefetched(right / steps, wasted, all_offers / steps)


def first_m(ranks: Ids, offered: Ids, m: int) -> tuple[Flags, Ids]:
    """Return which steps are foreseen by their first m offers, and how many offers these are.

    `ranks` are those of the next queries among the offers, from 1; 0: not among them.
    """
    return (ranks > 0) & (ranks <= m), np.minimum(offered, m)


class Forecasts(NamedTuple):
    """The forecasts of all steps: probabilities, sizes, and ranks of the next queries in them."""

    probabilities: NDArray[np.floating]
    sizes: Ids
    ranks: Ids

    def above(self, at_least: float) -> tuple[Flags, Ids]:
        """Return which steps are foreseen, and how many offers these are, with a threshold."""
        offers = self.probabilities >= at_least
        step = np.repeat(np.arange(len(self.sizes)), self.sizes)
        hits = np.bincount(step[offers & self._came], minlength=len(self.sizes)) > 0
        return hits, np.bincount(step[offers], minlength=len(self.sizes))

    def curve(self) -> PrefetchCurve:
        """Return what every threshold that makes a difference gives.

        >>> sizes, ranks = np.array([2, 1]), np.array([1, 0])
        >>> Forecasts(np.array([0.5, 0.1, 0.2]), sizes, ranks).curve().wasted.round(2).tolist()
        [0.0, 0.5, 0.67]
        """
        order = np.argsort(-self.probabilities, kind="stable")
        falling = self.probabilities[order].astype(np.float64)
        ends = np.flatnonzero(np.append(np.diff(falling) != 0, True))[: len(falling)]
        right, offered, steps = np.cumsum(self._came[order])[ends], ends + 1, len(self.sizes)
        return PrefetchCurve(falling[ends], right / steps, 1.0 - right / offered, offered / steps)

    @property
    def _came(self) -> Flags:
        """Which queries of the forecasts came next."""
        came = np.zeros(len(self.probabilities), bool)
        begins = np.cumsum(self.sizes) - self.sizes
        came[(begins + self.ranks - 1)[self.ranks > 0]] = True
        return came


def best_at_waste(curve: PrefetchCurve, wasted: float) -> float:
    """Return the threshold that foresees most without wasting a larger share; above 1 if none can.

    >>> curve = PrefetchCurve(*np.array([[0.9, 0.2], [0.1, 0.3], [0.5, 0.8], [0.2, 1.5]]))
    >>> best_at_waste(curve, 0.7), best_at_waste(curve, 0.9), best_at_waste(curve, 0.1)
    (0.9, 0.2, inf)
    """
    allowed = np.flatnonzero(curve.wasted <= wasted)
    return float(curve.at_least[allowed[-1]]) if len(allowed) else float("inf")
