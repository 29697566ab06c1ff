"""A test that is valid at any time it is looked at: an empirical-Bernstein confidence sequence.

Let X₁, X₂, … have the means δ₁, δ₂, … given what came before, and let X̂ₜ be guessed before Xₜ is
seen. If Xₜ − X̂ₜ ≥ −c, then for every λ in [0, 1/c)

    exp(λ Σ(Xₜ − δₜ) − ψ(λ) Σ(Xₜ − X̂ₜ)²),   ψ(λ) = (−log(1 − cλ) − cλ) / c²

is at most 1 on average, whenever you stop. So is a mixture of it over several λ, and by Ville's
inequality that mixture ever reaches 1/α with probability at most α. Where it does not, the mean of
the δₜ so far lies in the interval. Nothing is assumed of how the means change: a model that learns
is compared by what it did on average. With −X the same holds for the other side.

Reference: Howard, Ramdas, McAuliffe and Sekhon 2021, Time-uniform, nonparametric, nonasymptotic
confidence sequences, Theorem 4 and its mixtures. The grid of λ is ours; any fixed one is valid.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
ALPHA = 0.05
_U = 0.8 * 2.0 ** -np.arange(14)  # cλ: from 0.8 to 0.0001
_PSI = -np.log1p(-_U) - _U
_SPREAD = 60  # halvings of an interval


class Interval(NamedTuple):
    """An estimate and its interval."""

    mean: float
    low: float
    high: float


def log_evidence(total: ArrayLike, squares: ArrayLike, bound: float) -> Floats:
    """Return the logarithm of the evidence that the mean of X is above 0, elementwise.

    It is against "no mean δₜ is above 0", and reaches log(1/α) with probability at most α if that
    is true, however often you look.

    Parameters
    ----------
    total : ΣXₜ.
    squares : Σ(Xₜ − X̂ₜ)².
    bound : c above 0, so that Xₜ − X̂ₜ ≥ −c.

    >>> log_evidence([0.0, 60.0], [100.0, 100.0], 1.0).round(1).tolist()
    [-0.3, 10.3]
    """
    up = np.multiply.outer(np.asarray(total, float), _U / bound)
    down = np.multiply.outer(np.asarray(squares, float), _PSI / bound**2)
    exponents = up - down
    peak = exponents.max(axis=-1, keepdims=True)
    mean = np.exp(exponents - peak).mean(axis=-1)
    found: Floats = np.log(mean) + peak[..., 0]
    return found


def interval(
    count: int, total: float, squares: float, bounds: tuple[float, float], alpha: float = ALPHA
) -> Interval:
    """Return the mean of X so far with its interval: it holds at all times together, by 1 − α.

    Parameters
    ----------
    count, total, squares : the number of X, ΣXₜ and Σ(Xₜ − X̂ₜ)².
    bounds : (c, d), so that −c ≤ Xₜ − X̂ₜ ≤ d.
    alpha : the probability that the interval ever misses, in (0, 1).

    >>> found = interval(400, 40.0, 100.0, (1.0, 1.0))
    >>> [round(value, 3) for value in found]
    [0.1, -0.002, 0.202]
    """
    if not count:
        return Interval(0.0, -np.inf, np.inf)
    mean, needed = total / count, np.log(2.0 / alpha)
    low = mean - _margin(squares, bounds[0], needed) / count
    high = mean + _margin(squares, bounds[1], needed) / count
    return Interval(mean, float(low), float(high))


def _margin(squares: float, bound: float, needed: float) -> float:
    """Return how far a sum must be above its mean for that much evidence."""
    low, high = 0.0, (needed + np.log(len(_U)) + squares * _PSI[0] / bound**2) * bound / _U[0]
    for _ in range(_SPREAD):
        middle = (low + high) / 2
        if log_evidence(middle, squares, bound) < needed:
            low = middle
        else:
            high = middle
    return float(high)
