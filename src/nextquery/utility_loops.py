"""The array loops of `nextquery.utility`, written for Numba."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def newly_covered(
    kernel: Floats, covered: Floats, weights: Floats, arms: NDArray[np.intp], gains: Floats
) -> None:
    """Compute Σ_j w_j max(0, K_ij − c_j) for some rows i, in one pass over each."""
    for a in range(len(arms)):
        total = 0.0
        for j in range(kernel.shape[1]):
            total += weights[j] * max(kernel[arms[a], j] - covered[j], 0.0)
        gains[a] = total


def follow(
    kernel: Floats,
    columns: NDArray[np.intp],
    before: Floats,
    after: Floats,
    weights: Floats,
    gains: Floats,
) -> None:
    """Subtract from all gains what the newly covered columns no longer add."""
    for j in columns:
        low, high, weight = before[j], after[j], weights[j]
        for i in range(len(gains)):
            gains[i] -= weight * (min(max(kernel[j, i], low), high) - low)


def explain(
    rows: Floats, directions: Floats, arms: NDArray[np.intp], rest: Floats, met: NDArray[np.intp]
) -> None:
    """Subtract from the rest of some arms what the directions not yet applied explain."""
    for arm in arms:
        for s in range(met[arm], len(directions)):
            along = 0.0
            for j in range(rows.shape[1]):
                along += rows[arm, j] * directions[s, j]
            # With I + PSD the rest is at least 1, except for rounding.
            rest[arm] = max(rest[arm] - along * along, 1.0)
        met[arm] = len(directions)


def unexplained(directions: Floats, row: Floats, out: Floats) -> None:
    """Compute the part of a row that no direction explains, without BLAS, whose threads change
    the last bits."""
    out[:] = row
    for s in range(len(directions)):
        along = 0.0
        for j in range(len(row)):
            along += row[j] * directions[s, j]
        for j in range(len(row)):
            out[j] -= along * directions[s, j]
