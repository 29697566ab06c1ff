"""The second and third phase: rows on which a committee of rules disagrees.

A few relevant rows can be described by many rules. So rules that explain the labels are drawn at
random. A row that half of them hold and half do not removes half of them, whatever its label (query
by committee). While the rules disagree about much of a region, the rows of its next round are those
that the tree probably gets wrong: the second phase. Later they disagree about its borders alone,
and each row halves the doubt about one: the third phase.

Relevant rows may be taken for one region although they are of two. So a few of the rules are drawn
around those on one side of the widest gap alone: the fewer, the more rows the region has.

Seung, Opper, Sompolinsky: Query by Committee. COLT 1992.
"""

import numpy as np

from nextquery.explore.phases.doubt import Doubt
from nextquery.explore.phases.random_rules import RandomRules
from nextquery.explore.space import Flags, Rows, Space

MISCLASSIFIED, BOUNDARY = "misclassified", "boundary"
_RULES = 100
_CANDIDATES = 400  # rows in doubt, among which the best are searched
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
    some = rng.permutation(split)[:_CANDIDATES]
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
