"""Incremental ridge regression, shared or one model per arm, with decay over time.

`Ridge` keeps A, its inverse and b, and takes one example at a time. `DisjointRidge` has one model
per arm in closed form, with the arm's unit vector as its only context. `HalfLife` halves the
weight of examples with time. `leading` finds the leading candidates of LinUCB without computing
every width.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.errors import InvalidInput
from nextquery.policies.packed import Choice, FailedArms, Vectors
from nextquery.vectors import compiled

DAY = 86400.0
_NUMBERS = (int, float, np.integer, np.floating)


class HalfLife:
    """An example from time t weighs 2^(−(now − t)/h), with `now` the latest time seen.

    Times are Unix times in seconds, h is in days. Nothing fades without a half-life, or before the
    first time is seen: what was learnt until then counts as learnt at that time. `now` never goes
    back, so a single time far in the future makes everything else weigh nothing.

    >>> fading = HalfLife(2.0)
    >>> fading.move_to(0.0), fading.move_to(4 * DAY)  # what is left of earlier examples
    (1.0, 0.25)
    >>> fading.weight(2 * DAY), fading.weight(None), fading.move_to(3 * DAY)
    (0.5, 1.0, 1.0)
    """

    def __init__(self, days: float | None = None) -> None:
        self.days = days
        self.now: float | None = None

    def move_to(self, at: float | None) -> float:
        """Move `now` to a later time; return the share that is left of everything learnt before."""
        if self.days is None or at is None or (self.now is not None and at <= self.now):
            return 1.0
        left = self.left_at(at)
        self.now = at
        return left

    def left_at(self, at: float | None) -> float:
        """Return the share that a later time would leave of everything learnt."""
        if self.days is None or at is None or self.now is None or at <= self.now:
            return 1.0
        return float(2.0 ** (-(at - self.now) / (self.days * DAY)))

    def weight(self, at: float | None) -> float:
        """Return the weight of an example from time `at`, not later than now; None means now."""
        if self.days is None or at is None or self.now is None:
            return 1.0
        return float(2.0 ** (-(self.now - at) / (self.days * DAY)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the time as an array; nothing if no time was seen."""
        return {} if self.now is None else {"now": np.array(self.now)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the time from a `state`."""
        self.now = float(state["now"]) if "now" in state else None


def latest(*clocks: HalfLife) -> float | None:
    """Return the latest time that any of them has seen; None if there is none."""
    return max((clock.now for clock in clocks if clock.now is not None), default=None)


def checked_days(days: float | None) -> float | None:
    """Return a half-life in days, or None."""
    return None if days is None else number(days, "half_life", low=0, above_low=True)


def checked_time(at: Any) -> float | None:
    """Return `at` as a number of seconds, or None."""
    if at is None:
        return None
    if not isinstance(at, _NUMBERS) or not math.isfinite(at):
        raise InvalidInput(f"at must be a Unix time in seconds, or None for now; received {at!r}.")
    return float(at)


Floats = NDArray[np.float64]

SUM_ROUNDING = 1e-12
"""A play that counts less than this share of one that was removed is rounding."""

_LARGEST_UNIT = 2.0**60


class DisjointRidge:
    """The per-arm state of the published LinUCB: number of plays and sum of rewards.

    With n plays, reward sum r and ‖x‖² = 1, the model A = λI + n·xxᵀ, b = r·x reduces to mean
    r/(λ + n) and width 1/√(λ + n). Two numbers per arm, in arrays up to the largest arm played
    (18 MB for a million arms).

    With a `half_life` in days, a play counts w ≤ 1 times (see `HalfLife`). Time does not touch the
    arrays: they are in units in which a play of the past keeps its number and a play of now counts
    ever more.

    >>> model = DisjointRidge(1.0)
    >>> model.replace(7, None, 1.0)
    >>> model.means_and_widths(np.array([7, 8]))[0].tolist()
    [0.5, 0.0]
    """

    def __init__(self, ridge: float, *, half_life: float | None = None) -> None:
        self.ridge, self.clock = ridge, HalfLife(half_life)
        self.updates = 0
        # The last cell is always 0 and stands for every arm beyond the arrays.
        self._plays, self._rewards = np.zeros(1), np.zeros(1)
        self._unit = 1.0  # a play of now, in the arrays

    def means_and_widths(self, arms: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the mean and the width (uncertainty) of every arm."""
        at = np.minimum(arms, len(self._plays) - 1)
        weight = self.ridge + self._plays[at] / self._unit
        return self._rewards[at] / self._unit / weight, 1.0 / np.sqrt(weight)

    def replace(
        self, arm: int, old: float | None, new: float | None, *, at: float | None = None
    ) -> None:
        """Replace the reward `old` of a play with `new`; None means not observed."""
        whole_number(arm, "arm", at_least=0)
        self._reach(arm)
        unit, plays = self._unit_of(at), (new is not None) - (old is not None)
        self._plays[arm] += unit * plays
        self._rewards[arm] = self._rewards[arm] + unit * (new or 0.0) - unit * (old or 0.0)
        self.updates += plays
        if plays < 0 and self.clock.days is not None:
            self._tidy(np.array([arm]), unit)

    def observe(
        self, failed: FailedArms, success: int | None, *, sign: int = 1, at: float | None = None
    ) -> None:
        """Add a whole step: a play of every candidate, one of which may have succeeded.

        ``sign=-1`` removes it. It counts as one update.

        >>> model = DisjointRidge(1.0)
        >>> model.observe(FailedArms(np.array([7, 8]), 1.0), success=8)
        >>> model.means_and_widths(np.array([7, 8, 9]))[0].tolist(), model.updates
        ([0.0, 0.5, 0.0], 1)
        """
        self._reach(max(int(failed.ids.max()), success or 0))
        unit = sign * self._unit_of(at)
        self._plays[failed.ids] += unit * failed.weight
        if success is not None:
            self._rewards[success] += unit
        self.updates += sign
        if sign < 0:
            self._tidy(failed.ids, -unit)

    def check_step(self, failed: FailedArms, success: Choice | None) -> None:
        """Check what `observe` would learn, before anything changes."""
        if success is not None:
            whole_number(success.arm, "arm", at_least=0)

    def take_over(self, current: "DisjointRidge", base: "DisjointRidge") -> None:
        """Add what `current` has learnt since it was `base`.

        With half-lives, all three are taken as they are at the latest time that any has seen.
        """
        cells = max(len(model._plays) for model in (self, current, base)) + 1
        for model in (self, current, base):
            model._extend(cells)
        now = latest(self.clock, current.clock, base.clock)
        self._unit_of(now)
        (plays, rewards), (base_plays, base_rewards) = (
            model._in_units(self._unit, now) for model in (current, base)
        )
        self._plays += plays - base_plays
        since = self._rewards + (rewards - base_rewards)
        self._rewards = np.where(self._rewards == base_rewards, rewards, since)
        self.updates += current.updates - base.updates

    def move_to(self, at: float) -> None:
        """Let earlier plays fade to a later time."""
        self._unit_of(at)

    def _unit_of(self, at: float | None) -> float:
        """Move on to a time, if it is later than now; return a play of that time in the arrays."""
        left = self.clock.move_to(at)
        if left < 1.0 / _LARGEST_UNIT:  # nothing before then counts any more
            self._plays[:], self._rewards[:], self._unit = 0.0, 0.0, 1.0
        elif left < 1.0:
            self._unit /= left
            if self._unit > _LARGEST_UNIT:  # dividing by a power of 2 rounds nothing
                self._plays /= _LARGEST_UNIT
                self._rewards /= _LARGEST_UNIT
                self._unit /= _LARGEST_UNIT
        return self._unit * self.clock.weight(at)

    def _tidy(self, arms: NDArray[np.int64], removed: float) -> None:
        """Set what is only the rounding of plays that were removed to 0."""
        for values in (self._plays, self._rewards):
            values[arms] = np.where(
                np.abs(values[arms]) <= SUM_ROUNDING * removed, 0.0, values[arms]
            )

    def _in_units(self, unit: float, now: float | None) -> tuple[Floats, Floats]:
        """Return plays and rewards as they are at a later time, in units of another model."""
        scale = unit / self._unit * self.clock.left_at(now)
        return scale * self._plays, scale * self._rewards

    def _reach(self, arm: int) -> None:
        if arm >= len(self._plays) - 1:
            self._extend(max(arm + 2, 2 * len(self._plays)))

    def _extend(self, cells: int) -> None:
        """Extend the arrays; untouched zeros take no memory."""
        plays, rewards = np.zeros(cells), np.zeros(cells)
        plays[: len(self._plays)], rewards[: len(self._rewards)] = self._plays, self._rewards
        self._plays, self._rewards = plays, rewards

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the model as arrays, in order of arm. Without more, each play is an update."""
        arms = np.flatnonzero((self._plays != 0) | (self._rewards != 0))
        plays, rewards = self._plays[arms], self._rewards[arms]
        whole = self.clock.days is None and not (plays % 1).any()
        state = {"arms": arms, "plays": plays.astype(np.int64) if whole else plays}
        state["rewards"] = rewards
        if not whole or self.updates != plays.sum():
            state["updates"] = np.array(self.updates)
        if self.clock.days is not None:
            state["unit"] = np.array(self._unit)
        return {**state, **self.clock.state()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore the model from a `state`."""
        self._plays, self._rewards = np.zeros(1), np.zeros(1)
        self._extend(int(state["arms"].max(initial=-1)) + 2)
        self._plays[state["arms"]] = state["plays"]
        self._rewards[state["arms"]] = state["rewards"]
        self.updates = int(state.get("updates", state["plays"].sum()))
        self._unit = float(state.get("unit", 1.0))
        self.clock.restore(state)


def leading(
    x: Floats,
    theta: Floats,
    inverse: Floats,
    largest: float,
    alpha: float,
    m: int,
    tie: float,
    at_most: int,
    scores: Floats,
) -> bool:
    """Fill in the scores θᵀx + α√(xᵀA⁻¹x) that may be among the m best; leave −∞ elsewhere.

    A width costs d², a bound on it d. With u the direction that the candidates share, x = cu + z:

        xᵀA⁻¹x = c²·uᵀA⁻¹u + 2c·uᵀA⁻¹z + zᵀA⁻¹z, and zᵀA⁻¹z ≤ ℓ‖z‖², ℓ = `largest` with A⁻¹ ≤ ℓI.

    Candidates are scored in order of their bounds, until no bound reaches the m-th best score.
    Returns False if that takes more than `at_most` of them: one product for all is then cheaper.
    """
    n, d = x.shape
    shared = np.zeros(d)
    for i in range(0, n, 8):  # any direction works; the mean of a few rows is enough
        for j in range(d):
            shared[j] += x[i, j]
    length = np.sqrt(np.sum(shared * shared))
    if length > 0.0:
        shared /= length
    along = np.zeros(d)
    for a in range(d):
        for b in range(d):
            along[b] += inverse[a, b] * shared[a]
    own = np.sum(along * shared)
    means, bounds = np.empty(n), np.empty(n)
    for i in range(n):
        mean, c, crossed, square = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            mean += theta[j] * x[i, j]
            c += shared[j] * x[i, j]
            crossed += along[j] * x[i, j]
            square += x[i, j] * x[i, j]
        bound = c * (2.0 * crossed - c * own) + largest * max(square - c * c, 0.0)
        margin = 1e-12 * largest * square  # exceeds any rounding of the sums above
        means[i], bounds[i] = mean, mean + alpha * np.sqrt(max(bound, 0.0) + margin)
    best = np.full(m, -np.inf)  # the m best scores so far, in ascending order
    order = np.argsort(-bounds)
    for i in order[:at_most]:
        if bounds[i] < best[0] - tie:
            return True
        variance = 0.0
        for a in range(d):
            part = 0.0
            for b in range(d):
                part += inverse[a, b] * x[i, b]
            variance += x[i, a] * part
        scores[i] = means[i] + alpha * np.sqrt(max(variance, 0.0))
        if scores[i] > best[0]:
            place = 0
            while place + 1 < m and best[place + 1] < scores[i]:
                best[place] = best[place + 1]
                place += 1
            best[place] = scores[i]
    return bool(n <= at_most or bounds[order[at_most]] < best[0] - tie)


REFRESH = 512
"""Recompute the inverse from A after this many updates, so that rounding does not accumulate."""

EIGENVALUE_ROUNDING = 1e-9
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
            self.largest = float(np.linalg.eigvalsh(self.inverse)[-1]) * (1 + EIGENVALUE_ROUNDING)

    def _initial_bound(self) -> float:
        """Return ℓ before any example. It stays valid: A ≥ λI."""
        return (1 + EIGENVALUE_ROUNDING) / self.ridge

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
