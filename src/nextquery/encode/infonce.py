"""InfoNCE over pairs of queries with a hand-written gradient, and Adam."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.sessions import Ids

Floats = NDArray[np.floating]


class Step(NamedTuple):
    """The loss of a batch and its gradients with respect to the vectors of both sides."""

    loss: float
    left: Floats
    right: Floats


def info_nce(left: Floats, right: Floats, copies: NDArray[np.bool_], temperature: float) -> Step:
    """Compute the InfoNCE loss of a batch of pairs, and its gradients.

    With unit rows u_i = a_i/‖a_i‖, v_j = b_j/‖b_j‖ and s_ij = u_iᵀv_j / τ,

        L = −(1/2n) Σ_i [ log softmax_j(s_ij)_i + log softmax_j(s_ji)_i ]

    where pairs marked in `copies` (a query and another copy of its partner) are left out of both
    sums. The gradient is ∂L/∂s = (P_rows + P_columns − 2I)/2n, then ∂L/∂u = (∂L/∂s) v / τ, and
    through the scaling ∂L/∂a = (I − uuᵀ) ∂L/∂u / ‖a‖.

    Parameters
    ----------
    left, right : (n, d), partners in the same row; no row is zero.
    copies : (n, n), False on the diagonal.
    temperature : τ, from 0.03 (float32 underflows below) to 1.

    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> round(info_nce(rows, rows, np.zeros((2, 2), bool), 1.0).loss, 4)  # log(1 + 1/e)
    0.3133

    Reference: van den Oord, Li and Vinyals (2018), equation 4; in both directions as in
    Radford et al. (2021).
    """
    n = len(left)
    left_norm = np.linalg.norm(left, axis=1, keepdims=True)
    right_norm = np.linalg.norm(right, axis=1, keepdims=True)
    u, v = left / left_norm, right / right_norm
    weights = u @ v.T
    weights -= 1.0  # similarities are at most 1, so nothing overflows
    weights /= temperature
    np.exp(weights, out=weights)
    weights[copies] = 0.0
    own = np.diag(weights).copy()
    rows, columns = weights.sum(axis=1), weights.sum(axis=0)
    loss = -float((np.log(own / rows) + np.log(own / columns)).mean()) / 2
    weights *= 1 / rows[:, None] + 1 / columns
    weights.flat[:: n + 1] -= 2.0
    weights /= 2 * n * temperature
    toward_v, toward_u = weights @ v, weights.T @ u
    return Step(loss, _unscaled(toward_v, u, left_norm), _unscaled(toward_u, v, right_norm))


def copies_in(left: Ids, right: Ids) -> NDArray[np.bool_]:
    """Mark pairs (i, j), i ≠ j, that are not fair negatives because they share a text.

    >>> copies_in(np.array([1, 2, 3]), np.array([4, 4, 1])).astype(int).tolist()
    [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    """
    same: NDArray[np.bool_] = right[None, :] == right[:, None]
    same |= left[None, :] == left[:, None]
    same |= right[None, :] == left[:, None]
    np.fill_diagonal(same, False)
    return same


def _unscaled(gradient: Floats, unit: Floats, norm: Floats) -> Floats:
    along = (gradient * unit).sum(axis=1, keepdims=True)
    result: Floats = (gradient - unit * along) / norm
    return result


class Adam:
    """Adam optimiser: equal steps in every coordinate, at any gradient scale (Kingma and Ba 2015).

    >>> point = np.array([1.0], np.float32)
    >>> Adam(point).step(np.array([123.0], np.float32), rate=0.1)
    >>> round(float(point[0]), 3)
    0.9
    """

    def __init__(self, values: NDArray[np.float32]) -> None:
        self.values = values
        self._mean, self._square = np.zeros_like(values), np.zeros_like(values)
        self._steps = 0

    def step(self, gradient: Floats, *, rate: float) -> None:
        """Update the values in place."""
        self._steps += 1
        self._mean *= 0.9
        self._mean += 0.1 * gradient
        self._square *= 0.999
        self._square += 0.001 * np.square(gradient)
        size = np.sqrt(self._square / (1 - 0.999**self._steps))
        size += 1e-8
        np.divide(self._mean, size, out=size)
        size *= rate / (1 - 0.9**self._steps)
        self.values -= size
