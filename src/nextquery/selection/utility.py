"""Utilities of candidate sets: set functions for the optimisers of `nextquery.selection.optimize`.

A utility has ``value(set)`` and ``gain(set, arm) = value(set ∪ {arm}) − value(set)``; arms are
positions 0 … n−1 in the arrays it was made from. Gains are incremental. The object remembers the
last set, so the gains of a set that grew by one arm cost one step, not a recomputation. ``calls``
counts the gains computed. The array loops are written for Numba.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.checks import number
from nextquery.errors import InvalidInput
from nextquery.vectors import compiled, on_grid, unit_rows

__all__ = ["FacilityLocation", "LogDet", "LogProbability", "Utility"]


Floats = NDArray[np.float64]


def newly_covered(
    kernel: Floats, covered: Floats, weights: Floats, arms: NDArray[np.intp], gains: Floats
) -> None:
    """Compute Σ_j w_j max(0, K_ij − c_j) for some rows i, in one pass over each."""
    for a in range(len(arms)):
        total = 0.0
        for j in range(kernel.shape[1]):
            total += weights[j] * max(kernel[arms[a], j] - covered[j], 0.0)
        gains[a] = total


def follow(
    kernel: Floats,
    columns: NDArray[np.intp],
    before: Floats,
    after: Floats,
    weights: Floats,
    gains: Floats,
) -> None:
    """Subtract from all gains what the newly covered columns no longer add."""
    for j in columns:
        low, high, weight = before[j], after[j], weights[j]
        for i in range(len(gains)):
            gains[i] -= weight * (min(max(kernel[j, i], low), high) - low)


def explain(
    rows: Floats, directions: Floats, arms: NDArray[np.intp], rest: Floats, met: NDArray[np.intp]
) -> None:
    """Subtract from the rest of some arms what the directions not yet applied explain."""
    for arm in arms:
        for s in range(met[arm], len(directions)):
            along = 0.0
            for j in range(rows.shape[1]):
                along += rows[arm, j] * directions[s, j]
            # With I + PSD the rest is at least 1, except for rounding.
            rest[arm] = max(rest[arm] - along * along, 1.0)
        met[arm] = len(directions)


def unexplained(directions: Floats, row: Floats, out: Floats) -> None:
    """Compute the part of a row that no direction explains, without BLAS, whose threads change
    the last bits."""
    out[:] = row
    for s in range(len(directions)):
        along = 0.0
        for j in range(len(row)):
            along += row[j] * directions[s, j]
        for j in range(len(row)):
            out[j] -= along * directions[s, j]


class Utility(ABC):
    """Base class. A subclass implements `_reset`, `_grow` and `_gains`, and sets `n`.

    >>> utility = FacilityLocation([0.5, 0.3, 0.2], [[1, 0], [1, 0], [0, 1]])
    >>> utility.value([0]), utility.gain([0], 2)
    (0.8, 0.2)
    >>> utility.calls  # how often gains were computed
    1
    """

    modular = False
    """Whether gains are independent of the set, so that the best set is the k best arms."""

    def __init__(self, preferences: ArrayLike) -> None:
        p = np.asarray(preferences, dtype=np.float64)
        if p.ndim != 1 or not np.isfinite(p).all() or (p < 0).any():
            raise InvalidInput(
                "preferences must be one row of finite numbers of at least 0; received "
                f"shape {p.shape}, from {p.min(initial=0)} to {p.max(initial=0)}."
            )
        self.preferences, self.n, self.calls = p, p.size, 0
        self._forget()

    @classmethod
    @abstractmethod
    def of(cls, preferences: ArrayLike, vectors: ArrayLike) -> "Utility":
        """Create the utility for these preferences and vectors, with default parameters."""

    def value(self, arms: Iterable[int]) -> float:
        """Return the value of the set; 0 for an empty set."""
        self._move_to(list(arms))
        return math.fsum(self._terms)  # exact, so the order of choice cannot change a value

    def gain(self, arms: Iterable[int], arm: int) -> float:
        """Return what `arm` adds to the set; 0 if it is already in it."""
        return float(self.gains(list(arms), [arm])[0])

    def gains(self, arms: Sequence[int], candidates: Sequence[int]) -> Floats:
        """Return what each candidate alone adds to the set."""
        self.calls += len(candidates)
        self._move_to(arms)
        ids = self._checked(candidates)
        gains = self._gains(ids)
        gains[self._inside[ids]] = 0.0
        return gains

    def bounds(self, arms: Sequence[int], candidates: Sequence[int]) -> Floats:
        """Return upper bounds of the candidates' gains, cheaper than the gains; ∞ if unknown.

        They do not count as calls. An optimiser that uses them computes fewer gains.
        """
        self._move_to(arms)
        return self._bounds(self._checked(candidates))

    def _move_to(self, arms: Sequence[int]) -> None:
        """Move the incremental state to the set `arms`, growing the last set if possible."""
        shared = len(self._members)
        if list(arms[:shared]) != self._members:
            self._forget()
            shared = 0
        for arm in self._checked(arms[shared:]).tolist():
            if self._inside[arm]:
                raise InvalidInput(f"arm {arm} is in the set twice. Pass every arm once.")
            self._terms.append(float(self._gains(np.array([arm]))[0]))
            self._grow(arm)
            self._members.append(arm)
            self._inside[arm] = True

    def _forget(self) -> None:
        self._members: list[int] = []
        self._terms: list[float] = []
        self._inside = np.zeros(self.n, np.bool_)
        self._reset()

    def _checked(self, arms: Sequence[int]) -> NDArray[np.intp]:
        ids = np.asarray(arms, dtype=np.intp)
        if ids.size and (ids.min() < 0 or ids.max() >= self.n):
            raise InvalidInput(f"arms must be 0 to {self.n - 1}; received {ids.tolist()[:8]}.")
        return ids

    def _bounds(self, arms: NDArray[np.intp]) -> Floats:
        """Return upper bounds of the gains; ∞ unless a subclass computes better ones."""
        return np.full(arms.size, np.inf)

    @abstractmethod
    def _reset(self) -> None:
        """Reset to the empty set."""

    @abstractmethod
    def _grow(self, arm: int) -> None:
        """Add `arm` to the set."""

    @abstractmethod
    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        """Return the gains of arms that are not in the set."""


class LogProbability(Utility):
    """log g(C) = Σ log P_j: the paper's utility (Eq. 7), the log-probability of drawing all of C.

    It is modular. An arm with P < 1 lowers it, which is every arm unless the reading ``example``
    gives one arm more than 1 (see `nextquery.selection.preference`). So it is not monotone,
    and sets are compared at equal size only.

    >>> round(LogProbability([0.5, 0.25, 0.25]).gain([0], 1), 6)  # ln 0.25
    -1.386294
    """

    modular = True

    def __init__(self, preferences: ArrayLike) -> None:
        super().__init__(preferences)
        with np.errstate(divide="ignore"):
            self._logs = np.log(self.preferences)

    @classmethod
    def of(cls, preferences: ArrayLike, vectors: ArrayLike) -> "LogProbability":
        """Create it; the vectors are not used."""
        return cls(preferences)

    def _reset(self) -> None:
        pass

    def _grow(self, arm: int) -> None:
        pass

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        return self._logs[arms]


class FacilityLocation(Utility):
    """Σ_j P_j max_{i∈C} max(0, cos(a_i, a_j)): every arm is represented by its nearest member of C.

    Monotone and submodular: arms similar to many preferred arms come first, and a near-copy of a
    chosen arm adds nothing.

    Parameters
    ----------
    candidates : the arms that may be chosen; all by default. They are then numbered 0, 1, … in
        this order. All arms are still represented, but only the candidates' cosines are kept.

    >>> twins_and_other = FacilityLocation([0.4, 0.4, 0.2], [[1, 0], [1, 0], [0, 1]])
    >>> twins_and_other.gain([0], 1), round(twins_and_other.gain([0], 2), 6)
    (0.0, 0.2)
    """

    def __init__(
        self,
        preferences: ArrayLike,
        vectors: ArrayLike,
        *,
        candidates: Sequence[int] | None = None,
    ) -> None:
        super().__init__(preferences)
        rows = on_grid(_rows(vectors, self.n))
        self._whole = candidates is None
        chosen = rows if candidates is None else rows[self._checked(candidates)]
        self._kernel = chosen @ rows.T
        np.maximum(self._kernel, 0.0, out=self._kernel)
        self.n = len(chosen)
        self._forget()

    @classmethod
    def of(cls, preferences: ArrayLike, vectors: ArrayLike) -> "FacilityLocation":
        """Same as the constructor."""
        return cls(preferences, vectors)

    def _reset(self) -> None:
        self._covered = np.zeros(self.preferences.size)
        self._ceilings = np.empty(0)

    def _grow(self, arm: int) -> None:
        np.maximum(self._covered, self._kernel[arm], out=self._covered)

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        gains = np.empty(arms.size)
        sums = compiled(newly_covered, any_order=True)
        sums(self._kernel, self._covered, self.preferences, arms, gains)
        # Tracking all gains pays off only if most of them are needed.
        if self._whole and 2 * arms.size >= self.n:
            self._ceilings = np.full(self.n, np.inf)
            self._ceilings[arms] = gains
            self._followed, self._slack = self._covered.copy(), 0.0
            self._ulp = np.finfo(np.float64).eps * gains.max(initial=0.0)
        return gains

    def _bounds(self, arms: NDArray[np.intp]) -> Floats:
        """Return the gains, updated from set to set: an arm that joins C changes few columns.

        It changes about n/(t+1) columns when C has t arms, so tracking all gains over k arms costs
        about as much as computing them ln k times. Each step may round by half an ulp of the
        starting value; `_slack` bounds the total.
        """
        if not self._ceilings.size:
            return super()._bounds(arms)
        columns = np.flatnonzero(self._covered > self._followed)
        state = (self._kernel, columns, self._followed, self._covered, self.preferences)
        compiled(follow)(*state, self._ceilings)
        self._followed[columns] = self._covered[columns]
        self._slack += self._ulp * columns.size
        return self._ceilings[arms] + self._slack


class LogDet(Utility):
    """log det(I + λ Q K Q) over C, with K the cosines and Q the preferences scaled to a maximum 1.

    Monotone and submodular: the volume that preferred arms span, so arms in new directions gain
    most. With x = √λ q·a the gain is log(1 + xᵀ(I + Σ_{i∈C} x_i x_iᵀ)⁻¹x); the inverse is
    I − Σ w_s w_sᵀ, one direction w_s per arm of C. So no n × n matrix is built, and an arm is
    updated only when its gain is needed (after Chen, Zhang and Zhou 2018).

    Parameters
    ----------
    strength : λ > 0; a larger value favours diversity.
    peak : the preference that Q scales to 1; by default the largest one, and never less. If these
        arms are part of a larger set, pass the largest preference of that set.

    >>> round(LogDet([1.0, 1.0], [[1, 0], [0, 1]]).value([0, 1]), 6)  # 2 ln 2
    1.386294
    """

    def __init__(
        self,
        preferences: ArrayLike,
        vectors: ArrayLike,
        *,
        strength: float = 1.0,
        peak: float | None = None,
    ) -> None:
        self.strength = number(strength, "strength", low=0, above_low=True)
        self._rows = np.empty((0, 0))
        super().__init__(preferences)
        largest = self.preferences.max(initial=0.0)
        peak = largest if peak is None else number(peak, "peak", low=largest)
        q = self.preferences / peak if peak > 0 else np.ones(self.n)
        self._rows = _rows(vectors, self.n) * (np.sqrt(self.strength) * q)[:, None]
        self._reset()

    @classmethod
    def of(cls, preferences: ArrayLike, vectors: ArrayLike) -> "LogDet":
        """Same as the constructor, with strength 1."""
        return cls(preferences, vectors)

    def _reset(self) -> None:
        self._directions = np.empty((8, self._rows.shape[1]))
        self._rest = 1.0 + np.vecdot(self._rows, self._rows)  # of each arm: not yet explained by C
        self._met = np.zeros(len(self._rows), np.intp)  # directions applied so far

    def _grow(self, arm: int) -> None:
        size = len(self._members)
        if size == len(self._directions):
            more = np.empty_like(self._directions)
            self._directions = np.concatenate([self._directions, more])
        known, x = self._directions[:size], self._rows[arm]
        rest = self._catch_up(np.array([arm]))[0]
        compiled(unexplained, any_order=True)(known, x, self._directions[size])
        self._directions[size] /= np.sqrt(rest)

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        gains: Floats = np.log(self._catch_up(arms))
        return gains

    def _catch_up(self, arms: NDArray[np.intp]) -> Floats:
        """Return the part of these arms that C does not explain."""
        known = self._directions[: len(self._members)]
        compiled(explain, any_order=True)(self._rows, known, arms, self._rest, self._met)
        rest: Floats = self._rest[arms]
        return rest


def _rows(vectors: ArrayLike, n: int) -> Floats:
    rows = unit_rows(vectors).astype(np.float64)
    if n != len(rows):
        raise InvalidInput(
            f"preferences and vectors must have equal length; received {n} and {len(rows)}."
        )
    return rows
