"""Means with bootstrap intervals over anchors, and paired comparisons on the same anchors."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.replay.seeds import generator

Floats = NDArray[np.float64]
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
