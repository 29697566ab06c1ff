"""Sums of table rows: how a fitted encoder turns the words of a text into its vector."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.compiled import compiled


def summed(
    table: NDArray[Any], rows: NDArray[Any], offsets: NDArray[Any], weights: NDArray[Any]
) -> NDArray[Any]:
    """Return Σ w·table[row] over the rows of each text, from left to right.

    Text i has the rows and weights from ``offsets[i]`` to ``offsets[i + 1]``. The order is fixed,
    so a text's vector has the same bits in any batch.

    >>> table = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> summed(table, np.array([0, 1, 1]), np.array([0, 0, 3]), np.array([1.0, 2.0, 2.0])).tolist()
    [[0.0, 0.0], [1.0, 4.0]]
    """
    out = np.zeros((len(offsets) - 1, table.shape[1]), table.dtype)
    # One type each, so that the kernel is compiled only once for a kind of table.
    rows, offsets = np.asarray(rows, np.int64), np.asarray(offsets, np.int64)
    compiled(_add)(table, rows, offsets, np.asarray(weights, table.dtype), out)
    return out


def _add(table: Any, rows: Any, offsets: Any, weights: Any, out: Any) -> None:
    for text in range(len(offsets) - 1):
        for at in range(offsets[text], offsets[text + 1]):
            row, weight = table[rows[at]], weights[at]
            for column in range(out.shape[1]):
                out[text, column] += weight * row[column]
