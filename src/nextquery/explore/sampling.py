"""Which rows to ask about next: the three phases of sampling share the rows of a round.

*Discovery*, the first phase, takes rows from parts of the table without labels. A grid over all
columns would have far too many cells. Any region that a person can describe has few conditions.
So many coarse grids cover the rows, each over one to four columns drawn at random. The value of a
row is the number of rows in those of its cells without a labelled row. The grids get finer with
the number of labels, as the levels of the paper's grid do.

*Committee*, the second and third phase, takes rows on which a committee of rules disagrees. Many
rules can describe a few relevant rows, so rules that explain the labels are drawn at random. A
row that half of them accept and half reject removes half of them, whatever its label (query by
committee). While the rules disagree about much of a region, the next rows are those that the tree
probably gets wrong: the second phase. Later they disagree only about its borders, and each row
halves the doubt about one: the third phase.

Two regions may be mistaken for one. So a few of the rules are drawn only around the relevant rows
on one side of the widest gap. The more rows the region has, the fewer such rules are drawn.

A random rule has one to four columns, drawn at random, that together exclude every irrelevant row
from the smallest box around the relevant rows. Then it widens, one column after the other in
random order. Each end of a range moves to a random place before the next irrelevant row that only
this column excludes. A set of categories takes in other categories that no such row has.

Reference: Seung, Opper, Sompolinsky: Query by Committee. COLT 1992.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.explore.table import Column, Flags, Hull, Points, Rows, Space
from nextquery.explore.tree import Box, learn, regions

_GRIDS = 60
_DISCOVERY_CANDIDATES = 1500
_FINER = 2.0  # cells of a grid for each label
_GRID_COLUMNS = 4  # at most, per grid


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
    drawn = rng.choice(free, min(_DISCOVERY_CANDIDATES, len(free)), replace=False)
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
        chosen = rng.choice(
            columns, rng.integers(1, min(_GRID_COLUMNS, columns) + 1), replace=False
        )
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


class Doubt(NamedTuple):
    """A row to label: about `stake` rows around it may be relevant or not."""

    stake: float
    row: int
    phase: str


_RULE_COLUMNS = 4  # at most, per rule
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
        order = np.argsort(rng.random(self._used.shape) - self._used, axis=1)[:, :_RULE_COLUMNS]
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
    sizes = rng.integers(1, min(_RULE_COLUMNS, len(out)) + 1, len(used))
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


MISCLASSIFIED, BOUNDARY = "misclassified", "boundary"
_RULES = 100
_UNCERTAIN_CANDIDATES = 400  # rows in doubt, among which the best are searched
_MUCH = 0.05  # of a region's rows: so many in doubt are not only at its borders
_LITTLE = 0.01  # so many in doubt are not worth a question if they are less than one row, too


def questions(
    space: Space,
    region: Rows,
    irrelevant: Rows,
    labelled: Flags,
    wanted: int,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Return rows around a region whose labels would settle most, the best first.

    Parameters
    ----------
    space : the rows of the table.
    region : the numbers of its relevant rows.
    irrelevant : the numbers of all irrelevant rows.
    labelled : per row of the space.
    wanted : how many to return, at most.
    rng : draws.
    """
    held = _committee(space, region, irrelevant, rng)
    votes = np.bincount(np.concatenate(held or [region]), minlength=len(labelled))
    split = np.flatnonzero((votes > 0) & (votes < len(held)) & ~labelled)
    if not len(split):
        return []
    share, size = votes[split] / len(held), votes.sum() / len(held)
    stake = float((share * (1 - share)).sum())
    if stake < min(1, _LITTLE * size):
        return []
    phase = MISCLASSIFIED if stake > _MUCH * size else BOUNDARY
    some = rng.permutation(split)[:_UNCERTAIN_CANDIDATES]
    divisive = _most_divisive(_flags(held, some, len(labelled)), wanted)
    return [Doubt(stake, int(some[at]), phase) for at in divisive]


def _committee(
    space: Space, region: Rows, irrelevant: Rows, rng: np.random.Generator
) -> list[Rows]:
    """Return the rows that each rule holds."""
    doubtful = _RULES // (len(region) + 1)
    held = RandomRules(space, region, irrelevant, _RULES - doubtful, rng).rows()
    for side in _sides(space, region) if doubtful else ():
        held += RandomRules(space, side, irrelevant, (doubtful + 1) // 2, rng).rows()
    return held


def _sides(space: Space, region: Rows) -> list[Rows]:
    """Return the rows below and above the widest gap of a column, as a share of its range."""
    numbers = space.points[region][:, ~space.is_category]
    order = np.sort(numbers, axis=0)
    gaps = np.diff(order, axis=0) / np.maximum(order[-1:] - order[:1], np.float32(1e-9))
    if gaps.size == 0:
        return []
    after, column = np.unravel_index(gaps.argmax(), gaps.shape)
    below = numbers[:, column] <= order[after, column]
    return [region[below], region[~below]] if not below.all() else []


def _flags(held: list[Rows], rows: Rows, n_rows: int) -> Flags:
    """Return, per rule and each of some rows, whether the rule holds it."""
    place = np.full(n_rows, -1)
    place[rows] = np.arange(len(rows))
    found = np.zeros((len(held), len(rows)), bool)
    for rule, its in enumerate(held):
        at = place[its]
        found[rule, at[at >= 0]] = True
    return found


def _most_divisive(held: Flags, wanted: int) -> list[int]:
    """Return the rows that divide the rules most: each, the groups that those before it leave.

    >>> held = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [1, 0, 0]], bool)
    >>> _most_divisive(held, 2)
    [1, 2]
    """
    group, votes = np.zeros(len(held), np.int64), held.astype(np.float32)
    found: list[int] = []
    while len(found) < min(wanted, held.shape[1]):
        member = (group == np.arange(group.max() + 1)[:, None]).astype(np.float32)
        count, yes = member.sum(axis=1)[:, None], member @ votes
        worth = (yes * (count - yes) / count).sum(axis=0)
        worth[found] = 0
        best = int(worth.argmax())
        if worth[best] <= 0:
            break
        found.append(best)
        group = np.unique(2 * group + held[:, best], return_inverse=True)[1]
    return found


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
        more = discover(space, self._at, free, wanted - len(picked), rng)
        found = [*picked.values(), *(Doubt(0, row, DISCOVERY) for row in more)]
        return [doubt._replace(row=int(space.rows[doubt.row])) for doubt in found]
