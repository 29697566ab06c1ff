"""The tuned encoder: token vectors trained on queries that occur together in sessions.

The loss is InfoNCE over pairs of queries with a hand-written gradient; the optimiser is Adam.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import number, whole_number
from nextquery.encode.encoder import Encoder, Vectors, fitted
from nextquery.encode.projected import ProjectedEncoder, Validation
from nextquery.encode.tokens import TokenTable, pretrained
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions, Ids, Sessions

Floats = NDArray[np.floating]


class BatchGradients(NamedTuple):
    """The loss of a batch and its gradients with respect to the vectors of both sides."""

    loss: float
    left: Floats
    right: Floats


def info_nce(
    left: Floats, right: Floats, copies: NDArray[np.bool_], temperature: float
) -> BatchGradients:
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
    return BatchGradients(
        loss, _unscaled(toward_v, u, left_norm), _unscaled(toward_u, v, right_norm)
    )


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


_HELD_OUT = 2_000  # maximum number of validation sessions
_FEWEST = 10  # sessions: with fewer there is nothing to hold out


class Check(NamedTuple):
    """The metrics of one check during tuning."""

    step: int
    loss: float
    recall: float


class TunedEncoder(Encoder):
    """Token vectors trained so that two queries of one session find each other in a batch.

    A text is the unit mean of its token vectors, x ∝ Σ_w E_w, so the gradient of InfoNCE (see
    `info_nce`) with respect to a text's vector is spread evenly over its tokens. E starts
    from the session projection. Training stops if recall on held-out sessions has not risen for
    `patience` checks; the best table is kept.

    Parameters
    ----------
    dim : dimensions, at least 1; never more than the 256 of the pretrained vectors.
    temperature : τ of the softmax, 0.03 to 1.
    batch : pairs in a step, at least 2, each from a different session.
    rate : Adam's step size at the start, above 0; it falls linearly to 0 at `steps`.
    steps : maximum number of steps, at least 1.
    check_every : steps between two checks on the held-out sessions, at least 1.
    patience : checks without a better recall before stopping, at least 1.
    seed : seed for held-out sessions and batches.

    >>> texts = [f"{word} {i}" for i in range(12) for word in ("sofa", "cinema")]
    >>> together = [[2 * i, 2 * i + 1] for i in range(12)]  # a sofa query, then a cinema query
    >>> encoder = TunedEncoder(steps=20).fit(texts, together)
    >>> [check.step for check in encoder.history]
    [0, 20]

    Reference: van den Oord, Li and Vinyals (2018) for the loss.
    """

    name: ClassVar[str] = "tuned"

    def __init__(
        self,
        dim: int = 128,
        *,
        temperature: float = 0.05,
        batch: int = 2048,
        rate: float = 3e-3,
        steps: int = 1200,
        check_every: int = 40,
        patience: int = 6,
        seed: int = 0,
    ) -> None:
        self.dim = whole_number(dim, "dim", at_least=1)
        self.temperature = number(temperature, "temperature", low=0.03, high=1)
        self.batch = whole_number(batch, "batch", at_least=2)
        self.rate = number(rate, "rate", low=0, above_low=True)
        self.steps = whole_number(steps, "steps", at_least=1)
        self.check_every = whole_number(check_every, "check_every", at_least=1)
        self.patience = whole_number(patience, "patience", at_least=1)
        self.seed = whole_number(seed, "seed", at_least=0)
        self.table: TokenTable | None = None
        self.history: list[Check] = []

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Project, then tune on pairs of queries from the same session."""
        checked = Sessions.of(sessions, len(texts))
        start = ProjectedEncoder(dim=self.dim)
        start.progress = self.progress
        table = fitted(start.fit(texts, checked).table, start)
        table.rows /= np.sqrt(np.square(table.rows, dtype=np.float64).sum(axis=1).mean())
        bags = table.tokens.bags(texts)
        usable = checked.where(np.diff(bags.indptr) > 0).distinct()
        usable = usable.take(np.flatnonzero(usable.lengths >= 2))
        if usable.size < _FEWEST <= checked.size:
            raise InvalidInput(
                f"two queries have known words in {usable.size} of {checked.size} sessions, and "
                f"tuning needs {_FEWEST} such sessions. Use the encoder lsa for this script."
            )
        if usable.size < _FEWEST:
            raise InvalidInput(
                f"tuning needs at least {_FEWEST} sessions of 2 or more different queries; "
                f"received {usable.size}. Pass more sessions, or use the encoder projected or "
                "static."
            )
        rng = np.random.default_rng(self.seed)
        order = rng.permutation(usable.size)
        held_out = min(_HELD_OUT, usable.size // 10)
        check = Validation(bags, usable.take(order[:held_out]), rng)
        pairs = _Pairs(bags, usable.take(order[held_out:]), table)
        self.table, self.dim = self._tuned(pairs, check, rng), table.dim
        return self

    def _tuned(self, pairs: "_Pairs", check: Validation, rng: np.random.Generator) -> TokenTable:
        best = pairs.table()
        highest, waited = check.recall(best), 0
        self.history = [Check(0, float("nan"), highest)]
        adam, losses = Adam(pairs.rows), []
        for step in range(1, self.steps + 1):
            loss, gradient = pairs.gradient(rng, self.batch, self.temperature)
            losses.append(loss)
            adam.step(gradient, rate=self.rate * (1 - (step - 1) / self.steps))
            if step % self.check_every and step != self.steps:
                continue
            self._report("tuning on sessions", step / self.steps)
            current = pairs.table()
            recall = check.recall(current)
            self.history.append(Check(step, float(np.mean(losses)), recall))
            losses.clear()
            waited += 1
            if recall > highest:
                best, highest, waited = current, recall, 0
            elif waited == self.patience:
                break
        return best

    def share_known(self, texts: Sequence[str]) -> float:
        """Return the share of texts whose words have token vectors."""
        return (pretrained()[0] if self.table is None else self.table.tokens).share_known(texts)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        return fitted(self.table, self).encode(texts)

    def parts(self) -> dict[str, folders.Part]:
        """Return the tuned token table and its tokenizer."""
        return fitted(self.table, self).parts()

    def _restore(self, folder: folders.Folder) -> None:
        self.table = TokenTable.restored(folder)


class _Pairs:
    """Training sessions and the token vectors they use; only those rows are trained."""

    def __init__(self, bags: Any, sessions: Sessions, start: TokenTable) -> None:
        texts, arms = np.unique(sessions.arms, return_inverse=True)
        self._sessions = Sessions(arms.astype(np.int64), sessions.offsets)
        own = bags[texts]
        self._used, columns = np.unique(own.indices, return_inverse=True)
        share = np.repeat(1 / np.diff(own.indptr), np.diff(own.indptr)).astype(np.float32)
        shape = (len(texts), len(self._used))
        from scipy import sparse  # slow to import

        self._means = sparse.csr_array((share, columns.astype(np.int32), own.indptr), shape=shape)
        self._start = start
        self.rows: NDArray[np.float32] = start.rows[self._used]

    def table(self) -> TokenTable:
        """Return the whole table with the trained rows; rows that no session uses do not change."""
        rows = self._start.rows.copy()
        rows[self._used] = self.rows
        return TokenTable(self._start.tokens, rows)

    def gradient(
        self, rng: np.random.Generator, batch: int, temperature: float
    ) -> tuple[float, NDArray[np.float32]]:
        """Return the loss of a new batch and its gradient with respect to `rows`."""
        left, right = self._sessions.pairs(rng, batch)
        left_means, right_means = self._means[left], self._means[right]
        step: BatchGradients = info_nce(
            left_means @ self.rows, right_means @ self.rows, copies_in(left, right), temperature
        )
        return step.loss, left_means.T @ step.left + right_means.T @ step.right
