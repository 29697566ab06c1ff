"""The first phase: rows from parts of the table that nobody has looked at.

A grid over all columns would have far too many cells. Any region that a person can describe has a
few conditions, so many coarse grids are laid over the rows, each over one to four columns drawn at
random. A row is worth as much as the rows in those of its cells in which no row has a label. The
grids get finer with the number of labels, as the levels of the paper's grid do.
"""

import numpy as np

from nextquery.explore.space import Rows, Space

_GRIDS = 60
_CANDIDATES = 1500
_FINER = 2.0  # cells of a grid for each label
_COLUMNS = 4  # at most, per grid


def discover(
    space: Space, labelled: Rows, free: Rows, wanted: int, rng: np.random.Generator
) -> list[int]:
    """Return rows to ask for.

    Parameters
    ----------
    space : the rows of the table.
    labelled : the numbers of those that have a label.
    free : the numbers of those that may be asked for.
    wanted : how many to return.
    rng : draws grids and candidates.
    """
    drawn = rng.choice(free, min(_CANDIDATES, len(free)), replace=False)
    cells = _Cells(space, np.concatenate([drawn, labelled]))
    size = max(8.0, _FINER * (len(labelled) + wanted))
    worth = np.zeros((_GRIDS, len(drawn)), np.float32)
    keys = np.empty((_GRIDS, len(drawn)), np.int64)
    for grid in range(_GRIDS):
        every = cells.of_a_grid(size * 2 ** rng.uniform(-1, 1), rng)
        keys[grid] = every[: len(drawn)]
        counts = np.bincount(keys[grid], minlength=int(every.max()) + 1)
        counts[every[len(drawn) :]] = 0
        worth[grid] = counts[keys[grid]]
    found: list[int] = []
    score = worth.sum(axis=0)
    for _ in range(min(wanted, len(drawn))):
        best = int(score.argmax())
        found.append(int(drawn[best]))
        seen = keys == keys[:, [best]]
        score -= np.where(seen, worth, 0).sum(axis=0)
        worth[seen] = 0
        score[best] = -1.0  # never twice
    return found


class _Cells:
    """The cells of random grids, for some rows."""

    def __init__(self, space: Space, rows: Rows) -> None:
        self._points = space.points[rows]
        self._is_category = space.is_category
        self._kinds = [
            1 / np.sum((np.unique(values, return_counts=True)[1] / len(values)) ** 2)
            for values in self._points.T
        ]  # of a category column: how many categories, if all were equally common

    def of_a_grid(self, size: float, rng: np.random.Generator) -> Rows:
        """Return the cell of each row in a grid of about `size` cells."""
        columns = len(self._is_category)
        chosen = rng.choice(columns, rng.integers(1, min(_COLUMNS, columns) + 1), replace=False)
        numbers = [c for c in chosen if not self._is_category[c]]
        left = size
        for c in chosen:
            left /= self._kinds[c] if self._is_category[c] else 1
        steps = max(1.0, left) ** (1 / max(1, len(numbers)))
        keys = np.zeros(len(self._points), np.int64)
        for c in chosen:
            at = self._points[:, c].astype(np.float64)
            if not self._is_category[c]:
                at = np.floor(at * steps + rng.random())
            values = at.astype(np.int64)
            keys = keys * (int(values.max()) - int(values.min()) + 1) + values - values.min()
        return np.unique(keys, return_inverse=True)[1]
