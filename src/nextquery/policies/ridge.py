"""Incremental ridge regression: A, its inverse, and b, one example at a time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.policies.half_life import HalfLife, latest
from nextquery.policies.leading import leading
from nextquery.policies.packed import Vectors
from nextquery.vectors import compiled

Floats = NDArray[np.float64]
REFRESH = 512
"""Recompute the inverse from A after this many updates, so that rounding does not accumulate."""

ROUNDING = 1e-9
"""How much a bound is widened to stay valid despite rounding."""


class Ridge:
    """One linear model for all arms: A = λI + Σ x xᵀ, b = Σ r x, θ = A⁻¹ b.

    The inverse gets a rank-one update per example (Sherman and Morrison 1950). Remove an example
    with ``sign=-1``. With a `half_life` in days, an example counts w times, A = λI + Σ w x xᵀ and
    b = Σ w r x, where w depends on its time `at` (see `HalfLife`). Whenever the time moves on, all
    weights shrink and the inverse is computed anew.

    >>> model = Ridge(1.0)
    >>> model.learn(np.array([1.0, 0.0]), reward=1.0)
    >>> model.means(np.array([[1.0, 0.0]])).tolist()
    [0.5]
    """

    def __init__(self, ridge: float, *, half_life: float | None = None) -> None:
        self.ridge, self.clock = ridge, HalfLife(half_life)
        self.A, self.inverse = np.empty((0, 0)), np.empty((0, 0))
        self.b = np.empty(0)
        self.updates = 0
        self._weight = 0.0  # the sum of all w
        self.largest = self._initial_bound()  # A⁻¹ ≤ ℓI

    def means(self, x: Floats) -> Floats:
        """Return θᵀx for every row."""
        inverse, b = self.for_reading(x.shape[1])
        means: Floats = x @ (inverse @ b)
        return means

    def leading(
        self, sets: Sequence[Floats], alpha: float, m: Sequence[int], tie: float
    ) -> list[Floats]:
        """Return θᵀx + α·width for the rows of every set.

        −∞ may replace a score that cannot be in the top m of its set.
        """
        if not sets:
            return []
        inverse, b = self.for_reading(sets[0].shape[1])
        model = (inverse @ b, inverse, self.largest, alpha)
        fill = compiled(leading, any_order=True, brief=True)
        found = []
        for x, most in zip(sets, m, strict=True):
            scores = np.full(len(x), -np.inf)
            if not fill(x, *model, most, tie, most + len(x) // 8, scores):
                scores = self.means(x) + alpha * self.widths(x)
            found.append(scores)
        return found

    def widths(self, x: Floats) -> Floats:
        """Return √(xᵀA⁻¹x) for every row: the uncertainty in its direction."""
        variances = np.vecdot(x @ self.for_reading(x.shape[1])[0], x)
        widths: Floats = np.sqrt(np.maximum(variances, 0.0))
        return widths

    def for_reading(self, d: int) -> tuple[Floats, Floats]:
        """Return A⁻¹ and b for d features. Nothing changes: a model is what it has learnt."""
        if self.b.size == 0:
            return np.eye(d) / self.ridge, np.zeros(d)
        self.expect(d)
        return self.inverse, self.b

    def learn(self, x: Floats, reward: float, *, sign: int = 1, at: float | None = None) -> None:
        """Add an example (``sign=1``), or remove one (``sign=-1``)."""
        self.expect(x.size)
        faded, weight = self.move_to(at), sign * self.clock.weight(at)
        self.A = _plus_square(self.A, x, weight)
        self.b += weight * reward * x
        self.updates += 1
        self._weight += weight
        if faded or self.updates % REFRESH == 0 or not self._invert_with(x, weight):
            self._refresh()

    def replace(
        self, x: Floats, old: float | None, new: float | None, *, at: float | None = None
    ) -> None:
        """Replace the reward `old` of an example with `new`; None means not observed."""
        if old is not None and new is not None:
            self.expect(x.size)
            if self.move_to(at):
                self._refresh()
            self.b += self.clock.weight(at) * (new - old) * x
        elif new is not None:
            self.learn(x, new, at=at)
        elif old is not None:
            self.learn(x, old, sign=-1, at=at)

    def observe(
        self, failed: Vectors, b: Floats, *, sign: int = 1, at: float | None = None
    ) -> None:
        """Add a whole step, Σ x xᵀ over its candidates and b = Σ r x; or remove it (``sign=-1``).

        It counts as one update.

        >>> model = Ridge(1.0)
        >>> model.observe(Vectors(np.array([[1.0, 0.0], [1.0, 2.0]]), 1.0), np.array([1.0, 0.0]))
        >>> model.A.tolist(), model.b.tolist(), model.updates
        ([[3.0, 2.0], [2.0, 5.0]], [1.0, 0.0], 1)
        """
        rows = failed.rows
        self.expect(b.size)
        faded, weight = self.move_to(at), sign * self.clock.weight(at)
        self.A += weight * failed.weight * (rows.T @ rows)
        self.b += weight * b
        self.updates += sign
        self._weight += weight
        if faded or sign < 0 or len(rows) >= self.b.size or self.updates % REFRESH == 0:
            self._refresh()
            return
        if not all(self._invert_with(row, weight * failed.weight) for row in rows):
            self._refresh()

    def discount(self, examples: int) -> None:
        """Reduce the weight of everything learnt to `examples` examples, if it has more.

        A = λI + s·Σ x xᵀ and b = s·Σ r x, with s = examples/updates (with a half-life: by the sum
        of the weights).
        """
        held = self._held
        if examples >= held:
            return
        share = examples / held
        self.A, self.b = self._sums(share)
        self.updates, self._weight = examples, share * self._weight
        self._refresh()

    def not_below_zero(self, feature: int) -> None:
        """Set a weight that is negative by less than its uncertainty to 0, and keep the others.

        >>> model = Ridge(1.0)
        >>> model.learn(np.array([1.0, 0.5]), reward=-0.1)
        >>> model.not_below_zero(0)
        >>> abs(model.means(np.eye(2)).round(3)).tolist()
        [0.0, 0.022]
        """
        if feature >= self.b.size:
            return
        theta = self.inverse @ self.b
        if -np.sqrt(max(self.inverse[feature, feature], 0.0)) < theta[feature] < 0.0:
            theta[feature] = 0.0
            self.b = self.A @ theta

    def take_over(self, current: "Ridge", base: "Ridge") -> None:
        """Add what `current` has learnt since it was `base`: A += A_c − A_b, b += b_c − b_b.

        With half-lives, all three are taken as they are at the latest time that any of them has
        seen.

        >>> base, current, new = Ridge(1.0), Ridge(1.0), Ridge(2.0)
        >>> current.learn(np.array([1.0]), reward=1.0)
        >>> new.take_over(current, base)
        >>> new.A.tolist(), new.b.tolist(), new.updates
        ([[3.0]], [1.0], 1)
        """
        d = current.b.size
        if d == 0:
            return
        base.expect(d)
        self.expect(d)
        now = latest(self.clock, current.clock, base.clock)
        self.move_to(now)
        left, left_of_base = current.clock.left_at(now), base.clock.left_at(now)
        (A, b), (base_A, base_b) = current._sums(left), base._sums(left_of_base)
        self.A, self.b = _moved(self.A, A, base_A), _moved(self.b, b, base_b)
        self.updates += current.updates - base.updates
        self._weight += left * current._held - left_of_base * base._held
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

    def check_step(self, failed: Vectors) -> None:
        """Check what `observe` would learn, before anything changes."""
        d = failed.rows.shape[1]
        if self.b.size not in (0, d):
            raise InvalidInput(
                f"this policy has learnt from vectors of dimension {self.b.size}, and this step "
                f"has {d}. Use the pool it was trained with, or a new policy."
            )

    @property
    def _held(self) -> float:
        """What everything learnt weighs, in examples."""
        return self.updates if self.clock.days is None else self._weight

    def move_to(self, at: float | None) -> bool:
        """Move on to a later time; return whether A has changed, and not yet its inverse."""
        left = self.clock.move_to(at)
        if left == 1.0:
            return False
        self.A, self.b = self._sums(left)
        self._weight *= left
        return True

    def _sums(self, share: float) -> tuple[Floats, Floats]:
        """Return A and b with a share of what was learnt."""
        if share == 1.0:
            return self.A, self.b
        prior = np.eye(self.b.size) * self.ridge
        return prior + share * (self.A - prior), share * self.b

    def _invert_with(self, x: Floats, weight: float) -> bool:
        """Update the inverse for A + weight · xxᵀ; return whether it was safe to."""
        direction = self.inverse @ x
        scale = 1.0 + weight * float(x @ direction)
        if scale < 1e-6:
            return False
        self.inverse = _plus_square(self.inverse, direction, -weight / scale)
        if weight < 0:  # removing an example can make A⁻¹ larger
            self.largest = self._initial_bound()
        return True

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
        fading = {} if self.clock.days is None else {"weight": np.array(self._weight)}
        return {
            "A": self.A.copy(),
            "inverse": self.inverse.copy(),
            "b": self.b.copy(),
            "updates": np.array(self.updates),
            **fading,
            **self.clock.state(),
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the model from a `state`."""
        self.A, self.inverse = np.array(state["A"]), np.array(state["inverse"])
        self.b, self.updates = np.array(state["b"]), int(state["updates"])
        self._weight = float(state.get("weight", self.updates))
        self.clock.restore(state)
        self._bound()  # not saved: derived from the inverse


def _moved(start: Floats, current: Floats, base: Floats) -> Floats:
    """Return start + (current − base), without rounding where start equals base."""
    return np.where(start == base, current, start + (current - base))


def _plus_square(matrix: Floats, x: Floats, weight: float) -> Floats:
    """Return matrix + weight · xxᵀ for a symmetric matrix, in place if possible."""
    square = np.ascontiguousarray(matrix)
    compiled(_add_square, any_order=True)(square, np.ascontiguousarray(x), weight)
    return square


def _add_square(matrix: Any, x: Any, weight: float) -> None:
    for row in range(len(x)):
        scaled = weight * x[row]
        for column in range(len(x)):
            matrix[row, column] += scaled * x[column]
