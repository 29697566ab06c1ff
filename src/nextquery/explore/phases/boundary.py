"""The third phase: rows at the borders of a region, one border at a time.

Take the smallest box around the relevant rows of a region, a little wider. A row that is outside of
it in one column alone says where the region ends in that column: if it is relevant, the region
grows, and if not, a border is between. For each end of each column, a row halfway between the
outermost relevant row and the nearest such irrelevant row is asked for, so each label halves the
doubt. For each category that the region has not shown, one row of that category is asked for. Rows
inside are asked for too: the box may hold more than one region.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.phases.doubt import Doubt
from nextquery.explore.space import Flags, Hull, Rows, Space

PHASE = "boundary"
_LARGE, _SMALL = (
    0.2,
    0.05,
)  # of a region's rows: a doubt about fewer can wait, or is not worth a label


def borders(
    space: Space,
    region: Rows,
    irrelevant: Rows,
    labelled: Flags,
    rng: np.random.Generator,
) -> tuple[list[Doubt], Rows]:
    """Return a row for each border in doubt, and the rows inside the region.

    Parameters
    ----------
    space : the rows of the table.
    region : the numbers of its relevant rows.
    irrelevant : the numbers of all irrelevant rows.
    labelled : per row of the space.
    rng : draws among equal rows.
    """
    inner = space.points[region]
    hull = Hull.around(inner, space.is_category, wider=1 / (len(region) + 1))
    outside = hull.outside(space.points)
    misses = outside.sum(axis=0)
    inside = np.flatnonzero(misses == 0)
    least = _SMALL * len(inside)
    found = []

    def add(stake: float, rows: Rows, far: NDArray[np.float32] | None) -> None:
        keep = ~labelled[rows]
        if stake > least and keep.any():
            rows = rows[keep]
            if far is not None:
                rows = rows[far[keep] <= far[keep].min() + 1e-6]
            found.append(Doubt(stake, int(rng.choice(rows)), PHASE, stake > _LARGE * len(inside)))

    add(len(inside) / (len(region) + 1), inside, None)
    barred = hull.outside(space.points[irrelevant])
    barred = barred & (barred.sum(axis=0) == 1)  # only this column keeps the row out
    single = np.flatnonzero(misses == 1)
    for number, category in enumerate(space.is_category):
        rows = single[outside[number, single]]
        walls = space.points[irrelevant[barred[number]], number]
        if category:
            codes = space.points[rows, number]
            for code in np.setdiff1d(codes, walls):
                of_it = rows[codes == code]
                add(len(of_it), of_it, None)
            continue
        rows = np.concatenate([inside, rows])
        for within, middle in _ends(space.points[rows, number], inner[:, number], walls):
            add(within.sum(), rows[within], np.abs(space.points[rows[within], number] - middle))
    return found, inside


def _ends(
    places: NDArray[np.float32], inner: NDArray[np.float32], walls: NDArray[np.float32]
) -> Iterator[tuple[Flags, float]]:
    """Yield, for the lower and the upper end, which rows are in doubt and the middle of them."""
    low, high = float(inner.min()), float(inner.max())
    below, above = walls[walls < low], walls[walls > high]
    floor = float(below.max()) if len(below) else -0.01
    roof = float(above.min()) if len(above) else 1.01
    yield (places < low) & (places > floor), (low + max(floor, 0.0)) / 2
    yield (places > high) & (places < roof), (high + min(roof, 1.0)) / 2
