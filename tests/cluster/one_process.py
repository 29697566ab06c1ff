"""The oracle: GreeDi over the arms of an ordinary pool, by `optimize.greedi` in one process."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import nextquery as nq
from nextquery.selection import optimize, preference
from nextquery.selection.max_utility import UTILITIES
from nextquery.selection.utility import Utility


def mass_of(
    pool: nq.ArmPool, anchor: NDArray[Any], exclude: Sequence[int], epsilon: float
) -> preference.Mass:
    _, sums = pool.scan(pool.anchors([anchor]), [], exclude=[exclude], epsilon=epsilon)
    assert sums is not None
    return preference.Mass(float(sums.total[0]), float(sums.similar[0]), pool.count(exclude))


def utility_here(
    pool: nq.ArmPool,
    anchor: NDArray[Any],
    ids: Sequence[int],
    *,
    utility: str,
    epsilon: float = 0.5,
    reading: str = "example",
    exclude: Sequence[int] = (),
) -> Utility:
    """Return the utility of these arms of an ordinary pool."""
    clipped, similar = preference.clip(pool.score(ids, anchor), epsilon)
    mass = mass_of(pool, anchor, exclude, epsilon)
    preferences = preference.of_mass(clipped, similar, mass, reading)
    return UTILITIES[utility].of(preferences, pool.rows(ids))


def in_one_process(
    pool: nq.ArmPool,
    anchor: NDArray[Any],
    k: int,
    ids: Sequence[int],
    partitions: int | Sequence[Sequence[int]],
    *,
    seed: int = 0,
    **asked: Any,
) -> list[int]:
    """Return what `optimize.greedi` chooses from these arms; parts are ids."""
    parts: Any = partitions
    if not isinstance(partitions, int):
        parts = [np.searchsorted(ids, part).tolist() for part in partitions]
    whole = utility_here(pool, anchor, ids, **asked)
    return [ids[place] for place in optimize.greedi(whole, range(len(ids)), k, parts, seed)]
