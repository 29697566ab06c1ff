"""Calibration: a monotone map from scores to probabilities, fitted on held-out sessions."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Fitted = dict[str, Floats]
_DOUBT = 2.0  # weight of the average in every step of the map, in examples


def fit(scores: Floats, came: NDArray[np.bool_]) -> Fitted:
    """Fit an isotonic regression of "this candidate came next" on its score.

    Each step is pulled slightly towards the average, so that a step with few examples does not
    predict 0 or 1.

    >>> scores = np.array([0.0, 0.0, 0.0, 0.9, 0.9, 0.9])
    >>> fitted = fit(scores, np.array([0, 0, 0, 1, 1, 0], bool))
    >>> probability(fitted, np.array([0.0, 0.9])).round(2).tolist()
    [0.13, 0.53]
    """
    from sklearn.isotonic import IsotonicRegression

    if not len(scores) or not came.any():
        return {}
    levels = IsotonicRegression().fit_transform(scores, came.astype(float))
    _, step, sizes = np.unique(levels, return_inverse=True, return_counts=True)
    hits = np.bincount(step, weights=came)
    smooth = (hits + _DOUBT * came.mean()) / (sizes + _DOUBT)
    smooth = np.maximum.accumulate(smooth)
    low = np.full(len(sizes), np.inf)
    high = np.full(len(sizes), -np.inf)
    np.minimum.at(low, step, scores)
    np.maximum.at(high, step, scores)
    return {
        "score": np.stack([low, high], axis=1).ravel(),
        "probability": np.repeat(smooth, 2),
    }


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
