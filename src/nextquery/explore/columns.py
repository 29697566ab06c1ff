"""A column of a table as the tree sees it: numbers with an order, or categories without one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["number", "whole", "date", "time", "category"]
_DAY = 86_400_000_000  # microseconds, like the values of dates and times
_UNITS = (365 * _DAY, 30 * _DAY, 7 * _DAY, _DAY, _DAY // 24, 60_000_000, 1_000_000)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table.

    Parameters
    ----------
    name, type : as DuckDB has them.
    kind : ``number``, ``whole`` (integers), ``date``, ``time`` (dates with a time) or ``category``.
    values : one float64 per row. Numbers are themselves, dates and times are microseconds since
        1970; NaN is null. Of a category, the position in `categories`; null comes after the last.
    categories : the values of a category column in a fixed order, each as text.
    """

    name: str
    type: str
    kind: Kind
    values: NDArray[np.float64]
    categories: tuple[str, ...] = ()

    @property
    def is_category(self) -> bool:
        """Whether its values have no order."""
        return self.kind == "category"

    @cached_property
    def n_codes(self) -> int:
        """Number of codes of a category column: its values, and null if a row has it."""
        known = len(self.categories)
        return known + bool(np.any(self.values == known))

    @cached_property
    def has_null(self) -> bool:
        """Whether a row has no value."""
        null = self.values == len(self.categories) if self.is_category else np.isnan(self.values)
        return bool(null.any())

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """The values of a column of numbers in ascending order, without nulls."""
        return np.sort(self.values[~np.isnan(self.values)])

    @cached_property
    def ranks(self) -> NDArray[np.float32]:
        """The place of each row's value among all, from 0 to 1; equal values share one place.

        >>> Column("x", "DOUBLE", "number", np.array([5.0, 9.0, 5.0, np.nan])).ranks.round(2)
        array([0.33, 0.83, 0.33,  nan], dtype=float32)
        """
        first = np.searchsorted(self.ordered, self.values, "left")
        last = np.searchsorted(self.ordered, self.values, "right")
        ranks = (first + last) / (2 * max(1, len(self.ordered)))
        return np.where(np.isnan(self.values), np.nan, ranks).astype(np.float32)

    def cut(self, low: float, high: float) -> float:
        """Return a short value v with low <= v < high, with about as many rows on both sides.

        Parameters
        ----------
        low, high : values of two rows, of which the first is smaller.

        >>> values = np.array([1.0, 1203.7, 1250.2, 1290.4, 2000.0])
        >>> Column("x", "DOUBLE", "number", values).cut(1.0, 2000.0)
        1230.0
        >>> Column("x", "DOUBLE", "number", values).cut(1290.4, 2000.0)
        1600.0
        """
        first = int(np.searchsorted(self.ordered, low, "right"))
        between = self.ordered[first : int(np.searchsorted(self.ordered, high, "left"))]
        if not len(between):
            if math.isinf(low) or math.isinf(high):
                return low
            width = high - low
            return self._short(low + 0.3 * width, low + 0.7 * width, low, high)
        at = [between[int(share * (len(between) - 1))] for share in (0.4, 0.5, 0.6)]
        return self._short(float(at[0]), float(at[2]), float(at[1]), high)

    def _short(self, least: float, most: float, otherwise: float, below: float) -> float:
        """Return the shortest value from `least` to `most`, or `otherwise`."""
        if math.isinf(least) or math.isinf(most):
            return otherwise
        middle = least + (most - least) / 2
        for value in self._shorter(middle):
            if least <= value <= most and value < below:
                return value
        return otherwise

    def _shorter(self, middle: float) -> Sequence[float]:
        """Return values near `middle`, the shortest first."""
        if self.kind in ("date", "time"):
            return [math.floor(middle / unit) * unit for unit in _UNITS]
        rounded = [float(f"{middle:.{digits}g}") for digits in range(1, 16)]
        return [value for value in rounded if self.kind == "number" or value.is_integer()]
