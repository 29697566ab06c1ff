"""Forecasts: how probable each candidate is to come next, calibrated on held-out sessions."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.policies.policy import Floats

Fitted = dict[str, Floats]
_DOUBT = 2.0  # weight of the average in every step of the map, in examples


def fit(scores: Floats, came: NDArray[np.bool_]) -> Fitted:
    """Fit an isotonic regression of "this candidate came next" on its score.

    Each step is pulled slightly towards the average, so that a step with few examples does not
    predict 0 or 1. The map runs in straight lines through the middles of the steps: few steps can
    be told apart, and a higher score is more probable within a step too.

    >>> scores = np.array([0.0, 0.0, 0.0, 0.9, 0.9, 0.9])
    >>> fitted = fit(scores, np.array([0, 0, 0, 1, 1, 0], bool))
    >>> probability(fitted, np.array([0.0, 0.9])).round(2).tolist()
    [0.13, 0.53]
    >>> probability(fitted, np.array([0.45])).round(2).tolist()
    [0.33]
    """
    if not len(scores) or not came.any():
        return {}
    step, hits, sizes = _steps(scores, came)
    smooth = (hits + _DOUBT * came.mean()) / (sizes + _DOUBT)
    low = np.full(len(sizes), np.inf)
    high = np.full(len(sizes), -np.inf)
    np.minimum.at(low, step, scores)
    np.maximum.at(high, step, scores)
    return {"score": (low + high) / 2, "probability": np.maximum.accumulate(smooth)}


def _steps(
    scores: Floats, came: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
    """Pool adjacent violators: the step of each example, and the hits and examples of each step."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    steps: list[tuple[int, int, int]] = []  # hits, examples and scores, with rising shares of hits
    found = np.bincount(place[came], minlength=len(counts))
    for hits, size in zip(found.tolist(), counts.tolist(), strict=True):
        width = 1
        while steps and steps[-1][0] * size >= hits * steps[-1][1]:
            before = steps.pop()
            hits, size, width = hits + before[0], size + before[1], width + before[2]
        steps.append((hits, size, width))
    table = np.array(steps, np.int64)
    return np.repeat(np.arange(len(steps)), table[:, 2])[place], table[:, 0], table[:, 1]


def probability(fitted: Fitted, scores: Floats) -> Floats:
    """Return the probability that each candidate comes next. They sum to at most 1."""
    if fitted:
        probabilities = np.interp(scores, fitted["score"], fitted["probability"])
    else:
        probabilities = np.clip(scores, 0.0, 1.0)
    return probabilities / max(1.0, float(probabilities.sum()))


def expected_error(probabilities: Floats, came: NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error: the average gap between forecast and observed frequency.

    Forecasts go into `bins` of equal width, weighted by the number of forecasts in each.

    >>> expected_error(np.array([0.5, 0.5]), np.array([True, False]))
    0.0
    """
    bin_of = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = np.bincount(bin_of, weights=probabilities - came, minlength=bins)
    return float(np.abs(gaps).sum() / max(1, len(probabilities)))


class Likely(NamedTuple):
    """A next query with the probability that it comes next."""

    arm: int
    text: str
    probability: float
