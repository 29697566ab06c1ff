"""Queries to start from: well-known ones of the pool, each about something else."""

import numpy as np

from nextquery.catalogue import Catalogue

_KNOWN = 200  # best-known arms among which different ones are looked for
_LONGEST = 60  # characters that still read as an example


def starters(catalogue: Catalogue, count: int) -> list[str]:
    """Up to `count` queries: first the commonest, then always the one farthest from those taken.

    Blocked, removed and long ones are left out; so is what came after the pool was made.
    """
    pool, blocked = catalogue.pool, catalogue.blocked_arms()
    origin = pool.origin
    if origin is None:
        usual = np.arange(min(pool.rows_in_all, _KNOWN), dtype=np.int64)
    else:
        usual = np.argsort(-origin.session_counts, kind="stable")[: 4 * _KNOWN]
    usual = pool.alive(usual)
    short = [
        arm
        for arm in usual.tolist()
        if arm not in blocked and len(catalogue.shown(arm)) <= _LONGEST
    ][:_KNOWN]
    if not short:
        return []
    rows = pool.rows(np.array(short, np.int64))
    taken = [0]
    nearest = rows @ rows[0]
    while len(taken) < min(count, len(short)):
        taken.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, rows @ rows[taken[-1]])
    return [catalogue.shown(short[at]) for at in taken]
