"""Check the ids that callers pass: arrays of whole numbers of existing arms."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.kernels import Ids
from nextquery.errors import InvalidInput
from nextquery.vectors import compiled

NO_IDS: Ids = np.empty(0, np.int64)
_FEW = 16  # ids that are checked faster one by one


def among(ids: Ids, others: Ids) -> NDArray[np.bool_]:
    """Return whether each id is one of the others: a fast `numpy.isin` for a few hundred.

    >>> among(np.array([3, 1, 7]), np.array([7, 3])).tolist()
    [True, False, True]
    """
    found = np.zeros(len(ids), np.bool_)
    if len(ids) and len(others):
        compiled(_mark, brief=True)(ids, np.sort(others), found)
    return found


def _mark(ids: Ids, others: Ids, found: NDArray[np.bool_]) -> None:
    for i in range(len(ids)):
        place = np.searchsorted(others, ids[i])
        found[i] = place < len(others) and others[place] == ids[i]


def checked_ids(ids: Iterable[Any], what: str, rows: int, *, keep_order: bool = False) -> Ids:
    """Return the ids as an array, sorted and unique unless `keep_order`; ids are below `rows`.

    >>> checked_ids([3, 1, 3], "exclude", rows=5).tolist()
    [1, 3]
    """
    if not isinstance(ids, Iterable):
        raise InvalidInput(f"{what} must be a list of ids; received {ids!r}. Wrap it: [{ids!r}].")
    given = ids if isinstance(ids, np.ndarray) else list(ids)
    if len(given) <= _FEW:
        few = given.tolist() if isinstance(given, np.ndarray) else given
        if all(type(id) is int and 0 <= id < rows for id in few):
            return np.array(few if keep_order else sorted(set(few)), np.int64)
    given = np.asarray(given)
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
