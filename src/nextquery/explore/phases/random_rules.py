"""Rules drawn at random among those that explain the labels around a region.

A rule has one to four columns, drawn at random, that together keep every irrelevant row out of the
smallest box around the relevant rows. Then it widens, one column after the other in random order:
each end of a range moves to a random place before the next irrelevant row that only this column
keeps out, and a set of categories takes in others that no such row has.
"""

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.space import Flags, Hull, Points, Rows, Space

_COLUMNS = 4  # at most, per rule
_TRIED = 3  # sets of columns that are drawn for each rule
_MORE = 0.5  # at most so many of the other categories, on average, join a set
_BEYOND = 0.02  # an end of a range may move past the last row, so that it has no limit


class RandomRules:
    """Rules that hold all rows of a region and no irrelevant row.

    Parameters
    ----------
    space : the rows of the table.
    region : the numbers of its relevant rows.
    irrelevant : the numbers of all irrelevant rows.
    wanted : how many rules, at most; fewer if few of the drawn sets of columns will do.
    rng : draws.
    """

    def __init__(
        self, space: Space, region: Rows, irrelevant: Rows, wanted: int, rng: np.random.Generator
    ) -> None:
        self._space = space
        hull = Hull.around(space.points[region], space.is_category)
        others = space.points[irrelevant]
        outside = hull.outside(others)
        self._used = _sets_of_columns(outside, wanted, rng)
        count = len(self._used)
        self._low = np.tile(hull.low.astype(np.float64), (count, 1))
        self._high = np.tile(hull.high.astype(np.float64), (count, 1))
        self._codes: dict[int, Flags] = {}  # per rule and category, whether the rule has it
        for c in np.flatnonzero(space.is_category).tolist():
            own = np.isin(np.arange(space.columns[c].n_codes), list(hull.codes[c]))
            self._codes[c] = np.tile(own, (count, 1))
        self._widen(others, outside, rng)

    def rows(self) -> list[Rows]:
        """Return, per rule, the rows of the space that it holds."""
        points, widths = self._space.points, self._high - self._low
        widths[:, list(self._codes)] = np.inf
        every, found = np.arange(len(points)), []
        for rule, used in enumerate(self._used):
            columns = np.flatnonzero(used)
            columns = columns[np.argsort(widths[rule, columns])]  # the narrowest range first
            rows = every
            if (first := int(columns[0])) not in self._codes:
                rows = self._space.about(first, self._low[rule, first], self._high[rule, first])
            for column in columns.tolist():
                rows = rows[self._within(rule, column, points[:, column].take(rows))]
            found.append(rows)
        return found

    def _within(self, rule: int, column: int, values: NDArray[np.float32]) -> Flags:
        within: Flags
        if column in self._codes:
            within = self._codes[column][rule][values.astype(np.int64)]
        else:
            within = (values >= self._low[rule, column]) & (values <= self._high[rule, column])
        return within

    def _widen(self, others: Points, outside: Flags, rng: np.random.Generator) -> None:
        misses = self._used.astype(np.float32) @ outside.astype(np.float32)
        order = np.argsort(rng.random(self._used.shape) - self._used, axis=1)[:, :_COLUMNS]
        for turn in order.T:
            for c in np.unique(turn).tolist():
                rules = np.flatnonzero((turn == c) & self._used[:, c])
                barred = misses[rules] == outside[c]  # nothing else keeps these rows out
                widen = self._widen_set if c in self._codes else self._widen_range
                widen(c, rules, others[:, c], barred, rng)
                for rule in rules.tolist():
                    now = ~self._within(rule, c, others[:, c])
                    misses[rule] += now.astype(np.float32) - outside[c]

    def _widen_range(
        self,
        column: int,
        rules: Rows,
        values: NDArray[np.float32],
        barred: Flags,
        rng: np.random.Generator,
    ) -> None:
        low, high = self._low[rules, column], self._high[rules, column]
        below, above = barred & (values < low[:, None]), barred & (values > high[:, None])
        floor = np.where(below, values, -_BEYOND).max(axis=1, initial=-_BEYOND)
        roof = np.where(above, values, 1 + _BEYOND).min(axis=1, initial=1 + _BEYOND)
        down, up = rng.random((2, len(rules)))
        self._low[rules, column] = low - down * np.maximum(0, low - floor)  # a null is below all
        self._high[rules, column] = high + up * (roof - high)

    def _widen_set(
        self,
        column: int,
        rules: Rows,
        values: NDArray[np.float32],
        barred: Flags,
        rng: np.random.Generator,
    ) -> None:
        codes = self._codes[column]
        has = values.astype(np.int64)[:, None] == np.arange(codes.shape[1])
        banned = barred.astype(np.float32) @ has.astype(np.float32) > 0
        share = rng.uniform(0, _MORE, (len(rules), 1))
        codes[rules] |= (rng.random(banned.shape) < share) & ~banned


def _sets_of_columns(outside: Flags, wanted: int, rng: np.random.Generator) -> Flags:
    """Return sets of columns that keep every irrelevant row out, a row of flags for each.

    Columns join a set one by one. The chance of each follows how many of the rows it keeps out that
    no other column of the set does.

    Parameters
    ----------
    outside : per column and irrelevant row, whether the column keeps it out.
    wanted : how many sets, at most.
    rng : draws.
    """
    out = outside.astype(np.float32)
    used = np.zeros((_TRIED * wanted, len(out)), bool)
    sizes = rng.integers(1, min(_COLUMNS, len(out)) + 1, len(used))
    left = np.ones((len(used), out.shape[1]), np.float32)
    for size in range(sizes.max(initial=0)):
        weights = np.where(used, 0, left @ out.T + 1e-3)
        below = np.cumsum(weights, axis=1)
        drawn = rng.random((len(used), 1)) * below[:, -1:]
        pick = (below <= drawn).sum(axis=1).clip(max=len(out) - 1)
        grows = np.flatnonzero(sizes > size)
        used[grows, pick[grows]] = True
        left[grows] *= 1 - out[pick[grows]]
    fine: Flags = used[~left.any(axis=1)][:wanted]
    return fine
