"""What a set of candidates is worth: set functions for the optimisers of `nextquery.optimize`.

A utility has ``value(set)`` and ``gain(set, arm) = value(set ∪ {arm}) − value(set)``; arms are
positions 0 … n−1 in the arrays it was made from. Gains are incremental: the object remembers the
last set and what it takes to grow it, so asking for the gains of a set that grew by one arm costs
one step, never a recomputation. ``calls`` counts how many gains were asked for.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.checks import number
from nextquery.errors import InvalidInput
from nextquery.vectors import unit_rows

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

    >>> twins_and_other = FacilityLocation([0.4, 0.4, 0.2], [[1, 0], [1, 0], [0, 1]])
    >>> twins_and_other.gain([0], 1), round(twins_and_other.gain([0], 2), 6)
    (0.0, 0.2)
    """

    def __init__(self, preferences: ArrayLike, vectors: ArrayLike) -> None:
        self._kernel = np.maximum(_cosines(vectors), 0.0)
        super().__init__(preferences)
        _equally_many(self.n, self._kernel)

    @classmethod
    def of(cls, preferences: ArrayLike, vectors: ArrayLike) -> "FacilityLocation":
        """As the constructor."""
        return cls(preferences, vectors)

    def _reset(self) -> None:
        self._covered = np.zeros(len(self._kernel))

    def _grow(self, arm: int) -> None:
        np.maximum(self._covered, self._kernel[arm], out=self._covered)

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        gains = np.empty(arms.size)
        for start in range(0, arms.size, 256):
            part = slice(start, start + 256)
            gains[part] = np.maximum(self._kernel[arms[part]] - self._covered, 0) @ self.preferences
        return gains


class LogDet(Utility):
    """log det(I + λ Q K Q) over C, with K the cosines and Q the preferences scaled to a maximum 1.

    Monotone and submodular: the volume that preferred arms span, so arms in new directions gain
    most. Grown by one Cholesky column per arm (Chen, Zhang and Zhou 2018).

    Parameters
    ----------
    strength : λ > 0; the larger, the more diversity counts.

    >>> round(LogDet([1.0, 1.0], [[1, 0], [0, 1]]).value([0, 1]), 6)  # 2 ln 2
    1.386294
    """

    def __init__(
        self, preferences: ArrayLike, vectors: ArrayLike, *, strength: float = 1.0
    ) -> None:
        self.strength = number(strength, "strength", low=0, above_low=True)
        self._matrix = _cosines(vectors)
        super().__init__(preferences)
        _equally_many(self.n, self._matrix)
        peak = self.preferences.max(initial=0.0)
        q = self.preferences / peak if peak > 0 else np.ones(self.n)
        self._matrix *= self.strength * q[:, None] * q[None, :]
        self._matrix[np.diag_indices(self.n)] += 1.0
        self._reset()

    @classmethod
    def of(cls, preferences: ArrayLike, vectors: ArrayLike) -> "LogDet":
        """As the constructor, with strength 1."""
        return cls(preferences, vectors)

    def _reset(self) -> None:
        self._columns = np.empty((8, len(self._matrix)))
        self._size = 0
        self._rest = np.diag(self._matrix).copy()  # what of each arm the set does not explain

    def _grow(self, arm: int) -> None:
        if self._size == len(self._columns):
            self._columns = np.concatenate([self._columns, np.empty_like(self._columns)])
        known = self._columns[: self._size]
        column = (self._matrix[arm] - known[:, arm] @ known) / np.sqrt(self._rest[arm])
        self._columns[self._size] = column
        self._size += 1
        # I + PSD never leaves less than 1; rounding might.
        self._rest = np.maximum(self._rest - column**2, 1.0)

    def _gains(self, arms: NDArray[np.intp]) -> Floats:
        gains: Floats = np.log(self._rest[arms])
        return gains


def _cosines(vectors: ArrayLike) -> Floats:
    rows = unit_rows(vectors).astype(np.float64)
    cosines: Floats = rows @ rows.T
    return cosines


def _equally_many(n: int, kernel: NDArray[Any]) -> None:
    if n != len(kernel):
        raise InvalidInput(
            f"preferences and vectors must be equally many; received {n} and {len(kernel)}."
        )
