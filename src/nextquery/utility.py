"""What a set of candidates is worth: set functions for the optimisers of `nextquery.optimize`.

A utility has ``value(set)`` and ``gain(set, arm) = value(set ∪ {arm}) − value(set)``; arms are
positions 0 … n−1 in the arrays it was made from. Gains are incremental: the object remembers the
last set and what it takes to grow it, so asking for the gains of a set that grew by one arm costs
one step, never a recomputation. ``calls`` counts how many gains were asked for.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery import utility_loops as loops
from nextquery.checks import number
from nextquery.compiled import compiled
from nextquery.errors import InvalidInput
from nextquery.vectors import on_grid, unit_rows

__all__ = ["FacilityLocation", "LogDet", "LogProbability", "Utility"]

Floats = NDArray[np.float64]


class Utility(ABC):
    """The contract. A subclass writes `_reset`, `_grow` and `_gains`, and sets `n`."""

    modular = False
    """Whether a gain does not depend on the set: then the best set is the k best arms."""

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
        """The utility of arms with these preferences and vectors, with default parameters."""

    def value(self, arms: Iterable[int]) -> float:
        """What the set is worth; an empty set is worth 0."""
        self._move_to(list(arms))
        return math.fsum(self._terms)  # exact, so the order of choice cannot change a value

    def gain(self, arms: Iterable[int], arm: int) -> float:
        """What `arm` adds to the set; 0 when it is in it."""
        return float(self.gains(list(arms), [arm])[0])

    def gains(self, arms: Sequence[int], candidates: Sequence[int]) -> Floats:
        """What each of the candidates alone adds to the set."""
        self.calls += len(candidates)
        self._move_to(arms)
        asked = self._checked(candidates)
        gains = self._gains(asked)
        gains[self._inside[asked]] = 0.0
        return gains

    def bounds(self, arms: Sequence[int], candidates: Sequence[int]) -> Floats:
        """Numbers that the candidates' gains do not exceed, cheaper than the gains; ∞: not known.

        They cost no call: an optimiser that knows them asks for fewer gains.
        """
        self._move_to(arms)
        return self._bounds(self._checked(candidates))

    def _move_to(self, arms: Sequence[int]) -> None:
        """Bring the incremental state to the set `arms`, growing it where it can be grown."""
        shared = len(self._members)
        if list(arms[:shared]) != self._members:
            self._forget()
            shared = 0
        for arm in self._checked(arms[shared:]).tolist():
            if self._inside[arm]:
                raise InvalidInput(f"arm {arm} stands twice in the set.")
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
        asked = np.asarray(arms, dtype=np.intp)
        if asked.size and (asked.min() < 0 or asked.max() >= self.n):
            raise InvalidInput(f"arms must be 0 to {self.n - 1}; received {asked.tolist()[:8]}.")
        return asked

    def _bounds(self, arms: NDArray[np.intp]) -> Floats:
        """Numbers that the gains do not exceed; ∞ unless a subclass knows better."""
        return np.full(arms.size, np.inf)

    @abstractmethod
    def _reset(self) -> None:
        """Forget the set."""

    @abstractmethod
    def _grow(self, arm: int) -> None:
        """Put `arm` into the set."""

    @abstractmethod
    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        """The gains of arms that are not in the set."""


class LogProbability(Utility):
    """log g(C) = Σ log P_j: the paper's utility (Eq. 4), the log-probability of drawing all of C.

    It is modular, and every arm lowers it (log P < 0): sets are compared at equal size only.

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
        """The vectors do not matter here."""
        return cls(preferences)

    def _reset(self) -> None:
        pass

    def _grow(self, arm: int) -> None:
        pass

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        return self._logs[arms]


class FacilityLocation(Utility):
    """Σ_j P_j max_{i∈C} max(0, cos(a_i, a_j)): every arm is represented by its nearest member of C.

    Monotone and submodular: arms that many preferred others resemble come first, and a near-copy of
    a chosen arm adds nothing.

    Parameters
    ----------
    candidates : which of the arms can be asked for; all by default. They are then 0, 1, … in
        this order, all arms are still represented, and only their rows of the cosines are kept.

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
        """As the constructor."""
        return cls(preferences, vectors)

    def _reset(self) -> None:
        self._covered = np.zeros(self.preferences.size)
        self._ceilings = np.empty(0)

    def _grow(self, arm: int) -> None:
        np.maximum(self._covered, self._kernel[arm], out=self._covered)

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        gains = np.empty(arms.size)
        sums = compiled(loops.newly_covered, any_order=True)
        sums(self._kernel, self._covered, self.preferences, arms, gains)
        # Following all gains is worth it only where most are wanted.
        if self._whole and 2 * arms.size >= self.n:
            self._ceilings = np.full(self.n, np.inf)
            self._ceilings[arms] = gains
            self._followed, self._slack = self._covered.copy(), 0.0
            self._ulp = np.finfo(np.float64).eps * gains.max(initial=0.0)
        return gains

    def _bounds(self, arms: NDArray[np.intp]) -> Floats:
        """The gains, followed from set to set: an arm that joins C changes few columns.

        About n/(t+1) of them when C holds t arms, so all gains follow k arms at the price of
        computing them some ln k times. Each step may round by half an ulp of where it started:
        `_slack` is what that can come to.
        """
        if not self._ceilings.size:
            return super()._bounds(arms)
        columns = np.flatnonzero(self._covered > self._followed)
        state = (self._kernel, columns, self._followed, self._covered, self.preferences)
        compiled(loops.follow)(*state, self._ceilings)
        self._followed[columns] = self._covered[columns]
        self._slack += self._ulp * columns.size
        return self._ceilings[arms] + self._slack


class LogDet(Utility):
    """log det(I + λ Q K Q) over C, with K the cosines and Q the preferences scaled to a maximum 1.

    Monotone and submodular: the volume that preferred arms span, so arms in new directions gain
    most. With x = √λ q·a the gain is log(1 + xᵀ(I + Σ_{i∈C} x_i x_iᵀ)⁻¹x); the inverse is
    I − Σ w_s w_sᵀ, one direction w_s per arm of C, so no n × n matrix is made, and an arm catches
    up with the set only when it is asked for (after Chen, Zhang and Zhou 2018).

    Parameters
    ----------
    strength : λ > 0; the larger, the more diversity counts.
    peak : the preference that Q scales to 1, at least the largest one here; that by default. Where
        these arms are a part of others, it is the largest of them all.

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
        """As the constructor, with strength 1."""
        return cls(preferences, vectors)

    def _reset(self) -> None:
        self._directions = np.empty((8, self._rows.shape[1]))
        self._rest = 1.0 + np.vecdot(self._rows, self._rows)  # what of each arm C does not explain
        self._met = np.zeros(len(self._rows), np.intp)  # how many directions that allows for

    def _grow(self, arm: int) -> None:
        size = len(self._members)
        if size == len(self._directions):
            more = np.empty_like(self._directions)
            self._directions = np.concatenate([self._directions, more])
        known, x = self._directions[:size], self._rows[arm]
        left = self._catch_up(np.array([arm]))[0]
        compiled(loops.unexplained, any_order=True)(known, x, self._directions[size])
        self._directions[size] /= np.sqrt(left)

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        gains: Floats = np.log(self._catch_up(arms))
        return gains

    def _catch_up(self, arms: NDArray[np.intp]) -> Floats:
        """What C does not explain of these arms."""
        known = self._directions[: len(self._members)]
        compiled(loops.explain, any_order=True)(self._rows, known, arms, self._rest, self._met)
        rest: Floats = self._rest[arms]
        return rest


def _rows(vectors: ArrayLike, n: int) -> Floats:
    rows = unit_rows(vectors).astype(np.float64)
    if n != len(rows):
        raise InvalidInput(
            f"preferences and vectors must be equally many; received {n} and {len(rows)}."
        )
    return rows
