"""A race of all arms in which each part of a pool finds its possible winners on its own."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.kernels import Floats, Ids, Vectors
from nextquery.arms.scan import Blocks, RowRange, error_bound


class Race(NamedTuple):
    """A race for the earliest arms. Every arm's time depends only on `seed` and its id.

    So a part of the pool can tell which of its arms may win, without the other parts.
    """

    anchor: Vectors
    seed: int
    taken: Ids  # sorted; excluded from the race
    size: int
    epsilon: float
    above: float  # P per unit of similarity from ε on
    under: float  # and below
    uniform: bool  # P is the same for all arms

    def times(self, first: int, arms: int) -> Floats:
        """Return exponential times of rate 1 for consecutive ids."""
        counter, skipped = divmod(first, 4)  # Philox gives four numbers a step
        numbers = np.random.Generator(np.random.Philox(key=self.seed).advance(counter))
        return -np.log(1 - numbers.random(skipped + arms)[skipped:])

    def bounds(self, part: RowRange) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of P for every row of a part, from float32 products."""
        if self.uniform:
            return (np.ones(len(part.rows)),) * 2
        products = np.concatenate([rows @ self.anchor for rows in part.rows.segments()])
        near, error = products.astype(np.float64), error_bound(part.rows.dim)
        surely, surely_not = near >= self.epsilon + error, near < self.epsilon - error
        sides = self.above, self.under
        least = np.select([surely, surely_not], sides, min(sides)) * (near - error)
        most = np.select([surely, surely_not], sides, max(sides)) * (near + error)
        return np.maximum(least, 0), np.maximum(most, 0)


class Runners(NamedTuple):
    """Arms that may be among the earliest, with their times and exact similarities."""

    arms: Ids
    times: Floats
    similarities: Floats


def possible(part: RowRange, races: Sequence[Race]) -> list[Runners]:
    """Return, for every race, the arms of this part that may be among the earliest."""
    blocks = Blocks(part.rows.segments(), part.removed)
    runners = []
    for race in races:
        rows, times = _runners(part, race)
        runners.append(Runners(rows + part.first, times, blocks.score(rows, race.anchor)))
    return runners


def _runners(part: RowRange, race: Race) -> tuple[Ids, Floats]:
    ends = np.searchsorted(race.taken, (part.first, part.first + len(part.rows)))
    takes_part = np.ones(len(part.rows), bool)
    takes_part[part.removed], takes_part[race.taken[slice(*ends)] - part.first] = False, False
    rows = np.flatnonzero(takes_part)
    times = race.times(part.first, len(part.rows))[rows]
    if race.size < len(rows):
        with np.errstate(divide="ignore"):
            latest, earliest = (times / bound[rows] for bound in race.bounds(part))
        may = not_behind(earliest, latest, times, race.size)
        rows, times = rows[may], times[may]
    return rows, times


def not_behind(earliest: Floats, latest: Floats, times: Floats, size: int) -> NDArray[np.bool_]:
    """Return which arms may be among the first `size`; among arms with P = 0, times decide."""
    if size == 0:
        return np.zeros(len(times), bool)
    never = np.isinf(latest)
    arriving = len(times) - int(never.sum())
    may: NDArray[np.bool_]
    if size <= arriving:
        may = earliest <= np.partition(latest, size - 1)[size - 1]
    else:
        rest = size - arriving
        may = np.isfinite(earliest) | (times <= np.partition(times[never], rest - 1)[rest - 1])
    return may
