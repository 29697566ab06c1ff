"""Find the leading candidates of LinUCB without computing every width, written for Numba."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def leading(
    x: Floats,
    theta: Floats,
    inverse: Floats,
    largest: float,
    alpha: float,
    m: int,
    tie: float,
    at_most: int,
    scores: Floats,
) -> bool:
    """Fill in the scores θᵀx + α√(xᵀA⁻¹x) that may be among the m best; leave −∞ elsewhere.

    A width costs d², a bound on it d. With u the direction that the candidates share, x = cu + z:

        xᵀA⁻¹x = c²·uᵀA⁻¹u + 2c·uᵀA⁻¹z + zᵀA⁻¹z, and zᵀA⁻¹z ≤ ℓ‖z‖², ℓ = `largest` with A⁻¹ ≤ ℓI.

    Candidates are scored in order of their bounds, until no bound reaches the m-th best score.
    Returns False if that takes more than `at_most` of them: one product for all is then cheaper.
    """
    n, d = x.shape
    shared = np.zeros(d)
    for i in range(0, n, 8):  # any direction works; the mean of a few rows is enough
        for j in range(d):
            shared[j] += x[i, j]
    length = np.sqrt(np.sum(shared * shared))
    if length > 0.0:
        shared /= length
    along = np.zeros(d)
    for a in range(d):
        for b in range(d):
            along[b] += inverse[a, b] * shared[a]
    own = np.sum(along * shared)
    means, bounds = np.empty(n), np.empty(n)
    for i in range(n):
        mean, c, crossed, square = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            mean += theta[j] * x[i, j]
            c += shared[j] * x[i, j]
            crossed += along[j] * x[i, j]
            square += x[i, j] * x[i, j]
        bound = c * (2.0 * crossed - c * own) + largest * max(square - c * c, 0.0)
        margin = 1e-12 * largest * square  # exceeds any rounding of the sums above
        means[i], bounds[i] = mean, mean + alpha * np.sqrt(max(bound, 0.0) + margin)
    best = np.full(m, -np.inf)  # the m best scores so far, in ascending order
    order = np.argsort(-bounds)
    for i in order[:at_most]:
        if bounds[i] < best[0] - tie:
            return True
        variance = 0.0
        for a in range(d):
            part = 0.0
            for b in range(d):
                part += inverse[a, b] * x[i, b]
            variance += x[i, a] * part
        scores[i] = means[i] + alpha * np.sqrt(max(variance, 0.0))
        if scores[i] > best[0]:
            place = 0
            while place + 1 < m and best[place + 1] < scores[i]:
                best[place] = best[place + 1]
                place += 1
            best[place] = scores[i]
    return bool(n <= at_most or bounds[order[at_most]] < best[0] - tie)
