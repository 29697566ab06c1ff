"""Incremental ridge regression: A, its inverse, and b, one example at a time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.compiled import compiled
from nextquery.errors import InvalidInput
from nextquery.policies.leading import leading

Floats = NDArray[np.float64]
REFRESH = 512
"""Recompute the inverse from A after this many updates, so that rounding does not accumulate."""

ROUNDING = 1e-9
"""How much a bound is widened to stay valid despite rounding."""


class Ridge:
    """One linear model for all arms: A = λI + Σ x xᵀ, b = Σ r x, θ = A⁻¹ b.

    The inverse gets a rank-one update per example (Sherman and Morrison 1950). Remove an example
    with ``sign=-1``.

    >>> model = Ridge(1.0)
    >>> model.learn(np.array([1.0, 0.0]), reward=1.0)
    >>> model.means(np.array([[1.0, 0.0]])).tolist()
    [0.5]
    """

    def __init__(self, ridge: float) -> None:
        self.ridge = ridge
        self.A, self.inverse = np.empty((0, 0)), np.empty((0, 0))
        self.b = np.empty(0)
        self.updates = 0
        self.largest = self._initial_bound()  # A⁻¹ ≤ ℓI

    def means(self, x: Floats) -> Floats:
        """Return θᵀx for every row."""
        self.expect(x.shape[1])
        means: Floats = x @ (self.inverse @ self.b)
        return means

    def leading(self, x: Floats, alpha: float, m: int, tie: float) -> Floats:
        """Return θᵀx + α·width for every row; −∞ may replace scores that cannot be in the top m."""
        self.expect(x.shape[1])
        theta, scores = self.inverse @ self.b, np.full(len(x), -np.inf)
        model = (theta, self.inverse, self.largest, alpha)
        if compiled(leading, any_order=True)(x, *model, m, tie, m + len(x) // 8, scores):
            return scores
        return self.means(x) + alpha * self.widths(x)

    def widths(self, x: Floats) -> Floats:
        """Return √(xᵀA⁻¹x) for every row: the uncertainty in its direction."""
        self.expect(x.shape[1])
        variances = np.vecdot(x @ self.inverse, x)
        widths: Floats = np.sqrt(np.maximum(variances, 0.0))
        return widths

    def learn(self, x: Floats, reward: float, *, sign: int = 1) -> None:
        """Add an example (``sign=1``), or remove one (``sign=-1``)."""
        self.expect(x.size)
        self.A = _plus_square(self.A, x, sign)
        self.b += sign * reward * x
        self.updates += 1
        direction = self.inverse @ x
        scale = 1.0 + sign * float(x @ direction)
        if self.updates % REFRESH == 0 or scale < 1e-6:
            self._refresh()
        else:
            self.inverse = _plus_square(self.inverse, direction, -sign / scale)
            if sign < 0:  # removing an example can make A⁻¹ larger
                self.largest = self._initial_bound()

    def replace(self, x: Floats, old: float | None, new: float | None) -> None:
        """Replace the reward `old` of an example with `new`; None means not observed."""
        if old is not None and new is not None:
            self.expect(x.size)
            self.b += (new - old) * x
        elif new is not None:
            self.learn(x, new)
        elif old is not None:
            self.learn(x, old, sign=-1)

    def discount(self, examples: int) -> None:
        """Reduce the weight of everything learnt to `examples` examples, if it has more.

        A = λI + s·Σ x xᵀ and b = s·Σ r x, with s = examples/updates.
        """
        if examples >= self.updates:
            return
        share, prior = examples / self.updates, np.eye(self.b.size) * self.ridge
        self.A, self.b = prior + share * (self.A - prior), share * self.b
        self.updates = examples
        self._refresh()

    def take_over(self, current: "Ridge", base: "Ridge") -> None:
        """Add what `current` has learnt since it was `base`: A += A_c − A_b, b += b_c − b_b.

        Features that those models lack come last and count as 0 in their examples.

        >>> base, current, new = Ridge(1.0), Ridge(1.0), Ridge(2.0)
        >>> current.learn(np.array([1.0]), reward=1.0)
        >>> new.expect(2)
        >>> new.take_over(current, base)
        >>> new.A.tolist(), new.b.tolist(), new.updates
        ([[3.0, 0.0], [0.0, 2.0]], [1.0, 0.0], 1)
        """
        d = current.b.size
        if d == 0:
            return
        base.expect(d)
        if self.b.size < d:
            self.expect(d)
        self.A[:d, :d] = _moved(self.A[:d, :d], current.A, base.A)
        self.b[:d] = _moved(self.b[:d], current.b, base.b)
        self.updates += current.updates - base.updates
        self._refresh()

    def expect(self, d: int) -> None:
        """Set the dimension from the first example, then check it."""
        if self.b.size == 0 and d > 0:
            self.A, self.inverse = np.eye(d) * self.ridge, np.eye(d) / self.ridge
            self.b = np.zeros(d)
        elif d != self.b.size:
            raise InvalidInput(
                f"this policy has learnt from vectors of dimension {self.b.size}; received {d}. "
                "Use the pool it was trained with, or a new policy."
            )

    def _refresh(self) -> None:
        inverse = np.linalg.inv(self.A)
        self.inverse = (inverse + inverse.T) / 2
        self._bound()

    def _bound(self) -> None:
        """Compute ℓ from the inverse."""
        if self.b.size:
            self.largest = float(np.linalg.eigvalsh(self.inverse)[-1]) * (1 + ROUNDING)

    def _initial_bound(self) -> float:
        """Return ℓ before any example. It stays valid: A ≥ λI."""
        return (1 + ROUNDING) / self.ridge

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the model as arrays."""
        return {
            "A": self.A.copy(),
            "inverse": self.inverse.copy(),
            "b": self.b.copy(),
            "updates": np.array(self.updates),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the model from a `state`."""
        self.A, self.inverse = np.array(state["A"]), np.array(state["inverse"])
        self.b, self.updates = np.array(state["b"]), int(state["updates"])
        self._bound()  # not saved: derived from the inverse; older states have a wrong one


def _moved(start: Floats, current: Floats, base: Floats) -> Floats:
    """Return start + (current − base), without rounding where start equals base."""
    return np.where(start == base, current, start + (current - base))


def _plus_square(matrix: Floats, x: Floats, weight: float) -> Floats:
    """Return matrix + weight · xxᵀ for a symmetric matrix, in place if possible."""
    from scipy.linalg.blas import dger  # slow to import, so import it only when learning

    result: Floats = dger(weight, x, x, a=matrix.T, overwrite_a=True).T
    return result
