"""Check the ids that callers pass: arrays of whole numbers of existing arms."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nextquery.arms.kernels import Ids
from nextquery.errors import InvalidInput

NO_IDS: Ids = np.empty(0, np.int64)


def checked_ids(ids: Iterable[Any], what: str, rows: int, *, keep_order: bool = False) -> Ids:
    """Return the ids as an array, sorted and unique unless `keep_order`; ids are below `rows`.

    >>> checked_ids([3, 1, 3], "exclude", rows=5).tolist()
    [1, 3]
    """
    if not isinstance(ids, Iterable):
        raise InvalidInput(f"{what} must be a list of ids; received {ids!r}. Wrap it: [{ids!r}].")
    given = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids))
    if given.size == 0:
        return NO_IDS
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInput(f"{what} must be whole numbers, the ids of arms; received {given!r}.")
    bad = (given < 0) | (given >= rows)
    if bad.any():
        raise InvalidInput(f"{what}: there is no arm {given[bad][0]}; ids go from 0 to {rows - 1}.")
    array = given.astype(np.int64)
    return array if keep_order else np.unique(array)


def ids_per_anchor(exclude: Sequence[Any], anchors: int, rows: int) -> list[Ids]:
    """Return one checked array of ids per anchor; `exclude` is empty or has one sequence each.

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
