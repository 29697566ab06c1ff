"""What to ask for next: the three phases share the rows of a round."""

from collections.abc import Mapping, Sequence

import numpy as np

from nextquery.explore.boxes import Box, inside
from nextquery.explore.columns import Column
from nextquery.explore.learner import learn
from nextquery.explore.phases import discovery
from nextquery.explore.phases.boundary import borders
from nextquery.explore.phases.doubt import Doubt
from nextquery.explore.phases.misclassified import ENOUGH_LABELS, ENOUGH_ROWS, near, unseen
from nextquery.explore.regions import regions
from nextquery.explore.space import Rows, Space

DISCOVERY = "discovery"
MOST_ROWS = 100_000  # rows that may be asked for; of a longer table, a sample
_EXPLOIT = 0.75  # share of a round that the second and third phase may take
_POLISH = 0.2  # and if little depends on them


class Explorer:
    """Learns from labels and chooses rows; the same labels and seed give the same rows.

    Parameters
    ----------
    columns : of the table.
    n_rows : number of rows.
    seed : of every draw.
    """

    def __init__(self, columns: Sequence[Column], n_rows: int, *, seed: int) -> None:
        self._columns, self._seed = columns, seed
        drawn: Rows = np.arange(n_rows)
        if n_rows > MOST_ROWS:
            rng = np.random.default_rng([seed, n_rows])
            drawn = np.sort(rng.choice(n_rows, MOST_ROWS, replace=False))
        self._space = Space(columns, drawn)
        self.boxes: list[Box] = []  #: what is relevant
        self.look({})

    def look(self, labels: Mapping[int, bool]) -> list[Box]:
        """Learn from labels: whether each row is relevant. Returns the relevant boxes."""
        rows = np.array(sorted(labels), np.int64)
        relevant = np.array([labels[int(row)] for row in rows], bool)
        drawn = np.isin(rows, self._space.rows)  # of a long table, others may be labelled too
        at, marks = np.searchsorted(self._space.rows, rows[drawn]), relevant[drawn]
        points = self._space.points[at]
        self._at, self._relevant = at, marks
        found = regions(points[marks], points[~marks], self._space.is_category)
        self._regions = [at[marks][members] for members in found]
        of_table = [rows[drawn][marks][members] for members in found]
        of_table += [rows[[one]] for one in np.flatnonzero(relevant & ~drawn)]
        self.boxes = learn(self._columns, rows, relevant, of_table)
        return self.boxes

    def rows(self, wanted: int) -> list[Doubt]:
        """Return the next rows to label, by their numbers in the table."""
        space, rng = self._space, np.random.default_rng([self._seed, len(self._at)])
        labelled = np.zeros(len(space.rows), bool)
        labelled[self._at] = True
        relevant = np.zeros(len(space.rows), bool)
        relevant[self._at[self._relevant]] = True
        doubts: list[Doubt] = []
        for region in self._regions:
            hull = region
            if len(region) > 1:
                irrelevant = self._at[~self._relevant]
                sides, hull = borders(space, region, irrelevant, labelled, rng)
                doubts += sides
            weak = len(region) < ENOUGH_LABELS or len(hull) < ENOUGH_ROWS
            if weak:
                doubts += near(space, region, relevant, labelled, max(1, wanted // 2), rng)
            if len(region) >= ENOUGH_LABELS:
                called = self._called(region)
                doubts += unseen(called, hull, labelled, max(1, wanted // 5), rng)
        chosen: dict[int, Doubt] = {}
        for doubt in sorted(doubts, key=lambda d: (-d.stake, d.row)):
            chosen.setdefault(doubt.row, doubt)
        urgent = [doubt for doubt in chosen.values() if doubt.urgent][: int(_EXPLOIT * wanted)]
        minor = [doubt for doubt in chosen.values() if not doubt.urgent]
        picked = urgent + minor[: max(0, int(_POLISH * wanted) - len(urgent))]
        labelled[[doubt.row for doubt in picked]] = True
        free = np.flatnonzero(~labelled)
        more = discovery.discover(space, self._at, free, wanted - len(picked), rng)
        picked += [Doubt(0, row, DISCOVERY, False) for row in more]
        return [doubt._replace(row=int(space.rows[doubt.row])) for doubt in picked]

    def _called(self, region: Rows) -> Rows:
        """Return the rows that are called relevant by the boxes that hold rows of a region."""
        space, columns = self._space, self._columns
        at = space.rows[region]
        boxes = [box for box in self.boxes if inside([box], columns, at).any()]
        return np.flatnonzero(inside(boxes, columns, space.rows))
