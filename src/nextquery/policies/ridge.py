"""Ridge regression that learns one example at a time: A, its inverse, and b."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.compiled import compiled
from nextquery.errors import InvalidInput
from nextquery.policies.leading import leading

Floats = NDArray[np.float64]
REFRESH = 512
"""The inverse is computed anew from A every so many updates, so its rounding cannot pile up."""

ROUNDING = 1e-9
"""How much a bound is widened, so that rounding cannot make it false."""


class Ridge:
    """One linear model for all arms: A = λI + Σ x xᵀ, b = Σ r x, θ = A⁻¹ b.

    The inverse follows each example by a rank-one update (Sherman and Morrison 1950). An example
    can be taken back with ``sign=-1``.

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
        self.largest = self._at_first()  # A⁻¹ ≤ ℓI

    def means(self, x: Floats) -> Floats:
        """θᵀx of every row."""
        self.expect(x.shape[1])
        means: Floats = x @ (self.inverse @ self.b)
        return means

    def leading(self, x: Floats, alpha: float, m: int, tie: float) -> Floats:
        """θᵀx + α·width of every row; −∞ may stand where it is below the m best and no tie."""
        self.expect(x.shape[1])
        theta, scores = self.inverse @ self.b, np.full(len(x), -np.inf)
        model = (theta, self.inverse, self.largest, alpha)
        if compiled(leading, any_order=True)(x, *model, m, tie, m + len(x) // 8, scores):
            return scores
        return self.means(x) + alpha * self.widths(x)

    def widths(self, x: Floats) -> Floats:
        """√(xᵀA⁻¹x) of every row: how little is known in its direction."""
        self.expect(x.shape[1])
        variances = np.vecdot(x @ self.inverse, x)
        widths: Floats = np.sqrt(np.maximum(variances, 0.0))
        return widths

    def learn(self, x: Floats, reward: float, *, sign: int = 1) -> None:
        """Add an example (``sign=1``), or take one back (``sign=-1``)."""
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
            if sign < 0:  # only what is learnt makes A⁻¹ smaller
                self.largest = self._at_first()

    def replace(self, x: Floats, old: float | None, new: float | None) -> None:
        """Put the reward `new` of an example in the place of `old`; None: not observed."""
        if old is not None and new is not None:
            self.expect(x.size)
            self.b += (new - old) * x
        elif new is not None:
            self.learn(x, new)
        elif old is not None:
            self.learn(x, old, sign=-1)

    def discount(self, examples: int) -> None:
        """Give all that was learnt the weight of so many examples; nothing, where it has less.

        A = λI + s·Σ x xᵀ and b = s·Σ r x, with s = examples/updates.
        """
        if examples >= self.updates:
            return
        share, prior = examples / self.updates, np.eye(self.b.size) * self.ridge
        self.A, self.b = prior + share * (self.A - prior), share * self.b
        self.updates = examples
        self._refresh()

    def expect(self, d: int) -> None:
        """Take the dimension from the first example, and hold to it."""
        if self.b.size == 0 and d > 0:
            self.A, self.inverse = np.eye(d) * self.ridge, np.eye(d) / self.ridge
            self.b = np.zeros(d)
        elif d != self.b.size:
            raise InvalidInput(
                f"this policy has learnt from vectors of dimension {self.b.size}; received {d}."
            )

    def _refresh(self) -> None:
        inverse = np.linalg.inv(self.A)
        self.inverse = (inverse + inverse.T) / 2
        self._bound()

    def _bound(self) -> None:
        """Take ℓ from the inverse as it is."""
        if self.b.size:
            self.largest = float(np.linalg.eigvalsh(self.inverse)[-1]) * (1 + ROUNDING)

    def _at_first(self) -> float:
        """ℓ when nothing is learnt, and so at any time: A ≥ λI."""
        return (1 + ROUNDING) / self.ridge

    def state(self) -> dict[str, NDArray[Any]]:
        """The model as arrays."""
        return {
            "A": self.A.copy(),
            "inverse": self.inverse.copy(),
            "b": self.b.copy(),
            "updates": np.array(self.updates),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from `state`."""
        self.A, self.inverse = np.array(state["A"]), np.array(state["inverse"])
        self.b, self.updates = np.array(state["b"]), int(state["updates"])
        self._bound()  # not kept: it follows from the inverse, and older states hold a wrong one


def _plus_square(matrix: Floats, x: Floats, weight: float) -> Floats:
    """matrix + weight · xxᵀ of a symmetric matrix, in its own memory where that is possible."""
    from scipy.linalg.blas import dger  # slow to import, so only who learns pays

    result: Floats = dger(weight, x, x, a=matrix.T, overwrite_a=True).T
    return result
