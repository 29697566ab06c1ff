"""Ids as callers give them, checked: arrays of whole numbers that name arms there are."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from nextquery.arms.kernels import Ids
from nextquery.errors import InvalidInput

NO_IDS: Ids = np.empty(0, np.int64)


def checked_ids(ids: Iterable[Any], what: str, rows: int, *, keep_order: bool = False) -> Ids:
    """The ids as an array, sorted and each once unless `keep_order`; `rows` is how many there are.

    >>> checked_ids([3, 1, 3], "exclude", rows=5).tolist()
    [1, 3]
    """
    if not isinstance(ids, Iterable):
        raise InvalidInput(f"{what} must be several ids; received {ids!r}. Wrap it: [{ids!r}].")
    given = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    if given.size == 0:
        return NO_IDS
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInput(f"{what} must be whole numbers, the ids of arms; got {given!r}.")
    bad = (given < 0) | (given >= rows)
    if bad.any():
        raise InvalidInput(f"{what}: there is no arm {given[bad][0]}; ids go from 0 to {rows - 1}.")
    wanted = given.astype(np.int64)
    return wanted if keep_order else np.unique(wanted)
