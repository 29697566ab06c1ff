"""Ids as callers give them, checked: arrays of whole numbers that name arms there are."""

from collections.abc import Iterable, Sequence
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


def ids_per_anchor(exclude: Sequence[Any], anchors: int, rows: int) -> list[Ids]:
    """One checked array of ids for each anchor, from nothing at all or from one sequence each.

    >>> [ids.tolist() for ids in ids_per_anchor([[2, 0], []], anchors=2, rows=5)]
    [[0, 2], []]
    """
    if len(exclude) == 0:
        return [NO_IDS] * anchors
    if len(exclude) != anchors or any(np.ndim(ids) != 1 for ids in exclude):
        raise InvalidInput(
            f"exclude must be empty or one sequence of ids per anchor; received "
            f"{len(exclude)} entries for {anchors} anchors."
        )
    return [checked_ids(ids, "exclude", rows) for ids in exclude]
