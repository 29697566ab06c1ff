"""A log whose next query is certain: on a ring of queries, each is always followed by the same."""

import numpy as np

from nextquery import ArmPool
from nextquery.arms.origin import Origin
from nextquery.arms.texts import Texts
from nextquery.sessions import Sessions
from nextquery.vectors import unit_rows

ARMS, DAY = 30, 86_400.0


def after(arm: int) -> int:
    """Return the query that always follows."""
    return (arm + 7) % ARMS


def ring(count: int = 150, length: int = 5, seed: int = 0) -> Sessions:
    """Return sessions around the ring, one a day, a query a minute."""
    rng = np.random.default_rng(seed)
    rows, times = [], []
    for day in range(count):
        row = [int(rng.integers(ARMS))]
        while len(row) < length:
            row.append(after(row[-1]))
        rows.append(row)
        times += [day * DAY + 60.0 * step for step in range(length)]
    sessions = Sessions.of(rows)
    asked = np.array(times)
    return sessions._replace(asked=asked, times=asked[sessions.offsets[:-1]])


def pool_of(sessions: Sessions, arms: int = ARMS, dim: int = 16) -> ArmPool:
    """Return a pool of these sessions, with random vectors."""
    rng = np.random.default_rng(1)
    texts = [f"query {number}" for number in range(arms)]
    table = Texts()
    table.append(texts)
    counts = np.bincount(sessions.arms, minlength=arms)
    origin = Origin(texts, counts, counts, sessions, True)
    return ArmPool(table, unit_rows(rng.normal(size=(arms, dim))), origin=origin)
