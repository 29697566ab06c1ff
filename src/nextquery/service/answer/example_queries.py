"""Example queries to start from: common queries of the pool, each about something else."""

import numpy as np

from nextquery.catalogue.catalogue import Catalogue
from nextquery.selection.duplicates import Folding, best_first

_KNOWN = 200  # most common arms to choose from
_LONGEST = 60  # characters in an example


def example_queries(
    catalogue: Catalogue, count: int, segment: str = "", folding: Folding | None = None
) -> list[str]:
    """Return up to `count` queries of a segment: the most common, then those far from the others.

    Excluded, removed and long queries are left out, and so are arms added after the pool was made.
    """
    pool = catalogue.pool
    common = pool.alive(catalogue.common_in(segment))
    common = common[~np.isin(common, catalogue.hidden_arms())]
    if folding is not None:
        common = common[best_first(folding.of_arms(common))]
    short = [arm for arm in common.tolist() if len(catalogue.shown(arm)) <= _LONGEST][:_KNOWN]
    if not short:
        return []
    rows = pool.rows(np.array(short, np.int64))
    taken = [0]
    nearest = rows @ rows[0]
    while len(taken) < min(count, len(short)):
        taken.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, rows @ rows[taken[-1]])
    return [catalogue.shown(short[at]) for at in taken]
