"""What to ask for next: the three phases share the rows of a round."""

from collections.abc import Mapping, Sequence

import numpy as np

from nextquery.explore.boxes import Box
from nextquery.explore.columns import Column
from nextquery.explore.learner import learn
from nextquery.explore.phases import discovery
from nextquery.explore.phases.committee import BOUNDARY, MISCLASSIFIED, questions
from nextquery.explore.phases.doubt import Doubt
from nextquery.explore.regions import regions
from nextquery.explore.space import Rows, Space

DISCOVERY = "discovery"
MOST_ROWS = 100_000  # rows that may be asked for; of a longer table, a sample
_SHARES = {MISCLASSIFIED: 0.75, BOUNDARY: 0.2}  # of a round, at most
_REGIONS = 3  # at most, for which questions are asked in a round


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
        asked = rng.permutation(len(self._regions))[:_REGIONS]
        doubts = [
            doubt
            for number in asked
            for doubt in questions(
                space, self._regions[number], self._at[~self._relevant], labelled, wanted, rng
            )
        ]
        doubts.sort(key=lambda doubt: -doubt.stake)
        picked: dict[int, Doubt] = {}
        for phase, share in _SHARES.items():
            most = int(share * wanted + rng.random())
            for doubt in doubts:
                if doubt.phase == phase and len(picked) < most:
                    picked.setdefault(doubt.row, doubt)
        labelled[list(picked)] = True
        free = np.flatnonzero(~labelled)
        more = discovery.discover(space, self._at, free, wanted - len(picked), rng)
        found = [*picked.values(), *(Doubt(0, row, DISCOVERY) for row in more)]
        return [doubt._replace(row=int(space.rows[doubt.row])) for doubt in found]
