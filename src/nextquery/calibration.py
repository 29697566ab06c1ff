"""From a score to a probability: the monotone map that held-out sessions support."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Fitted = dict[str, Floats]
_DOUBT = 2.0  # how many examples the average counts for in every step of the map


def fit(scores: Floats, came: NDArray[np.bool_]) -> Fitted:
    """Isotonic regression of "this candidate came next" on its score, each step drawn a little
    towards the average: a step that few examples support should not say 0 or 1.

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
    """The probability of each candidate to come next; together at most 1."""
    if fitted:
        each = np.interp(scores, fitted["score"], fitted["probability"])
    else:
        each = np.clip(scores, 0.0, 1.0)
    return each / max(1.0, float(each.sum()))


def expected_error(probabilities: Floats, came: NDArray[np.bool_], bins: int = 10) -> float:
    """Expected calibration error: how far, on average, what was said lies from what came.

    Forecasts are put into `bins` of equal width; each bin counts by how many it holds.

    >>> expected_error(np.array([0.5, 0.5]), np.array([True, False]))
    0.0
    """
    where = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = np.bincount(where, weights=probabilities - came, minlength=bins)
    return float(np.abs(gaps).sum() / max(1, len(probabilities)))
