"""Distillation: fit a token table whose means are closest to another encoder's vectors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.encode.base import Encoder, Vectors
from nextquery.encode.static import StaticEncoder
from nextquery.encode.table import TokenTable
from nextquery.encode.tokens import Tokens

_RIDGE = 1.0  # a token that occurs in one text moves half of the way
_ITERATIONS = 30


def distil(teacher: Encoder, tokens: Tokens, texts: Sequence[str]) -> StaticEncoder:
    """Fit a static encoder that imitates `teacher` on `texts`, at the speed of a look-up.

    With m_i the mean of bag i's rows of E, x_i the teacher's unit vector and E₀ its vectors of the
    single tokens, E minimises Σ_i ‖m_i(E) − x_i‖² + λ‖E − E₀‖². A token that the texts do not use
    keeps the teacher's vector. Word order is lost, so the floor is somewhat worse.

    Reference: Tulkens and van Dongen (2024, Model2Vec) for starting from single tokens.
    """
    return table_of(teacher.encode(texts), tokens, texts, single_tokens(teacher, tokens))


def single_tokens(teacher: Encoder, tokens: Tokens) -> Vectors:
    """Return the teacher's vector of each single token, zero for tokens without a meaning."""
    words = tokens.words()
    rows = np.zeros((tokens.size, teacher.dim), np.float32)
    known = [i for i, word in enumerate(words) if word]
    rows[known] = teacher.encode([words[i] for i in known])
    return rows


def table_of(
    targets: Vectors, tokens: Tokens, texts: Sequence[str], start: Vectors
) -> StaticEncoder:
    """Fit the table by conjugate gradients, all dimensions at once."""
    bags = tokens.bags(texts)
    lengths = np.diff(bags.indptr)
    share = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    from scipy import sparse  # slow to import

    means: Any = sparse.csr_array((share, bags.indices, bags.indptr), shape=bags.shape)
    encoder = StaticEncoder(dim=targets.shape[1])
    change = _ridge(means, targets - means @ start)
    encoder.table = TokenTable(tokens, start + change)
    return encoder


def _ridge(rows: Any, targets: NDArray[Any]) -> NDArray[np.float32]:
    """Solve (BᵀB + λI) D = Bᵀ R for D, per column of R.

    >>> from scipy import sparse
    >>> _ridge(sparse.csr_array(np.eye(2)), np.array([[4.0], [0.0]])).tolist()
    [[2.0], [0.0]]

    Reference: Hestenes and Stiefel (1952).
    """
    right = rows.T @ targets
    solution = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    length = np.square(residual).sum(axis=0)
    for _ in range(_ITERATIONS):
        ahead = rows.T @ (rows @ direction) + _RIDGE * direction
        step = length / np.maximum((direction * ahead).sum(axis=0), 1e-30)
        solution += step * direction
        residual -= step * ahead
        before, length = length, np.square(residual).sum(axis=0)
        direction = residual + length / np.maximum(before, 1e-30) * direction
    result: NDArray[np.float32] = solution.astype(np.float32)
    return result
