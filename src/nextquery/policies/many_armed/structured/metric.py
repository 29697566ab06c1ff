"""How far arms are from each other: the angle between their vectors, divided by π."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def distances(some: ArrayLike, others: ArrayLike) -> Floats:
    """Return angle/π for each pair of rows, in [0, 1]. It is a metric; 1 − cosine is none.

    1 − cosine breaks the triangle inequality: 0 to 90° costs 1, but by way of 45° only 0.59.

    >>> rows = [[1, 0], [1, 1], [0, 1], [-1, 0]]
    >>> distances(rows[:1], rows).round(3).tolist()
    [[0.0, 0.25, 0.5, 1.0]]
    """
    one, other = _unit(some), _unit(others)
    chords = np.clip(2.0 - 2.0 * (one @ other.T), 0.0, 4.0)
    return np.asarray(2.0 / np.pi * np.arcsin(np.sqrt(chords) / 2.0), np.float64)


def _unit(rows: ArrayLike) -> Floats:
    """Return rows of length 1 in float64; the stored ones are rounded to float32."""
    values = np.asarray(rows, np.float64)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(lengths > 0, lengths, 1.0), np.float64)
