"""Projections in closed form: principal directions, and directions in which sessions differ."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.sessions import Ids, Sessions

Matrix = NDArray[np.float64]
Reader = Callable[[Ids], NDArray[np.float32]]
_ROWS = 1 << 15  # rows of the log read at once


def principal(moment: Matrix, dim: int) -> Matrix:
    """Return the `dim` leading eigenvectors of a matrix of second moments, as columns.

    >>> principal(np.diag([1.0, 3.0, 2.0]), 2).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    size = len(moment)
    from scipy import linalg  # slow to import

    _, vectors = linalg.eigh(moment, subset_by_index=(size - dim, size - 1))
    return _fix_signs(vectors[:, ::-1])


class Scatter(NamedTuple):
    """Second moments of the log's rows: around their session's mean, and of those means."""

    within: Matrix
    between: Matrix

    @classmethod
    def of(cls, read: Reader, sessions: Sessions) -> "Scatter":
        """Compute both scatter matrices in one pass over the sessions, per row of the log.

        S_w = Σ_s Σ_{i∈s} (z_i − m_s)(z_i − m_s)ᵀ / N,   S_b = Σ_s n_s (m_s − m)(m_s − m)ᵀ / N

        `read` returns the vectors of texts by position. Sessions of one query are left out, since
        they show nothing about agreement.
        """
        used = sessions.take(np.flatnonzero(sessions.lengths >= 2))
        if used.size < 2:
            raise InvalidInput(
                f"a session projection needs at least 2 sessions of 2 or more queries; received "
                f"{used.size}. Pass more sessions, or use the encoder static."
            )
        total: Matrix | float = 0.0
        means: Matrix | float = 0.0
        grand: Matrix | float = 0.0
        for arms, starts, lengths in _blocks(used):
            rows = read(arms).astype(np.float64)
            sums = np.add.reduceat(rows, starts, axis=0)
            total = total + rows.T @ rows
            means = means + (sums / lengths[:, None]).T @ sums
            grand = grand + sums.sum(axis=0)
        n = len(used.arms)
        mean = np.asarray(grand) / n
        return cls((np.asarray(total) - means) / n, np.asarray(means) / n - np.outer(mean, mean))


def discriminant(scatter: Scatter, dim: int, shrinkage: float) -> Matrix:
    """Regularised LDA: directions in which a session's queries agree and sessions differ.

    The columns w maximise wᵀ S_b w / wᵀ (S_w + λI) w, λ = `shrinkage` × the mean within-session
    variance tr(S_w)/d, and are scaled to a denominator of 1: S_b w = γ (S_w + λI) w.

    >>> narrow = Scatter(within=np.diag([0.01, 1.0]), between=np.diag([1.0, 1.0]))
    >>> discriminant(narrow, 1, 0.1).round(2).tolist()
    [[4.07], [0.0]]

    Reference: Fisher (1936); Friedman (1989) for the regularisation.
    """
    size = len(scatter.within)
    ridge = max(shrinkage * float(np.trace(scatter.within)) / size, 1e-12)
    noise = scatter.within + ridge * np.eye(size)
    chosen: Any = (size - dim, size - 1)
    from scipy import linalg

    _, vectors = linalg.eigh(scatter.between, noise, subset_by_index=chosen)
    return _fix_signs(vectors[:, ::-1])


def product_by_row(rows: NDArray[np.float32], matrix: Matrix) -> Matrix:
    """Compute ``rows @ matrix`` with the same bits for a row in any batch.

    BLAS sums in an order that depends on the shape of the batch; a sparse product goes row by row.

    >>> product_by_row(np.ones((1, 2), np.float32), np.array([[1.0], [2.0]])).tolist()
    [[3.0]]
    """
    n, d = rows.shape
    indices = np.tile(np.arange(d, dtype=np.int64), n)
    by_row = (rows.astype(np.float64).ravel(), indices, np.arange(0, n * d + 1, d))
    from scipy import sparse

    product: Matrix = sparse.csr_array(by_row, shape=(n, d)) @ matrix
    return product


def _blocks(sessions: Sessions) -> Iterator[tuple[Ids, Ids, Ids]]:
    """Yield blocks of whole sessions, about `_ROWS` rows each: arms, session starts and lengths."""
    first = 0
    while first < sessions.size:
        target = sessions.offsets[first] + _ROWS
        last = max(first + 1, int(np.searchsorted(sessions.offsets, target, side="right")) - 1)
        start, end = sessions.offsets[first], sessions.offsets[last]
        offsets = sessions.offsets[first : last + 1] - start
        yield sessions.arms[start:end], offsets[:-1], np.diff(offsets)
        first = last


def _fix_signs(vectors: Matrix) -> Matrix:
    """Make the largest entry of each column positive, since eigh leaves the sign open."""
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    return np.ascontiguousarray(vectors * signs) + 0.0
