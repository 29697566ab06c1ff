"""The second phase: rows that the tree probably gets wrong.

A tree that had not seen the few relevant rows of a new region would call them irrelevant. So rows
near to one of them are asked for, until the region is known from enough rows that its borders can
be asked for one by one. And what the tree calls relevant reaches beyond the relevant rows it has
seen, because its rules have no condition that no label needs. So rows from there are asked for too:
each that is irrelevant takes a piece away.
"""

import numpy as np

from nextquery.explore.phases.doubt import Doubt
from nextquery.explore.space import Flags, Rows, Space

PHASE = "misclassified"
ENOUGH_LABELS, ENOUGH_ROWS = 4, 30
LARGE = 0.2  # of the rows of a region: so many in doubt are urgent
_NEAR = 50
_FIRST = 10.0  # a stake here counts more: what follows needs a region


def near(
    space: Space,
    region: Rows,
    relevant: Flags,
    labelled: Flags,
    wanted: int,
    rng: np.random.Generator,
) -> list[Doubt]:
    """Return rows near a relevant row of a region.

    Parameters
    ----------
    space : the rows of the table.
    region : the numbers of its relevant rows.
    relevant, labelled : per row of the space.
    wanted : how many to return.
    rng : draws.
    """
    apart = space.distances(int(rng.choice(region)), region)
    nearest = np.argsort(apart, kind="stable")[:_NEAR]
    hits, known = int(relevant[nearest].sum()), int(labelled[nearest].sum())
    stake = _FIRST * len(nearest) * (1 + hits) / (2 + known)
    free = nearest[~labelled[nearest]]
    chosen = rng.choice(free, min(wanted, len(free)), replace=False)
    return [Doubt(stake, int(row), PHASE, True) for row in chosen]


def unseen(
    called: Rows, hull: Rows, labelled: Flags, wanted: int, rng: np.random.Generator
) -> list[Doubt]:
    """Return rows that the tree calls relevant, and that are unlike the relevant rows it has seen.

    Parameters
    ----------
    called : the numbers of the rows that the rules of a region select.
    hull : the numbers of the rows that are between its relevant rows.
    labelled : per row of the space.
    wanted : how many to return.
    rng : draws.
    """
    beyond = np.setdiff1d(called, hull)
    free = beyond[~labelled[beyond]]
    chosen = rng.choice(free, min(wanted, len(free)), replace=False)
    urgent = len(beyond) > LARGE * len(called)
    return [Doubt(len(beyond) / 2, int(row), PHASE, urgent) for row in chosen]
