"""Batches of sessions with what they accepted, and what was shown beside the next query."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nextquery.rivals.neural.training.batches import Batch, batch_of, places_of
from nextquery.rivals.neural.training.data import Slates
from nextquery.sessions import Ids, Sessions


class ClickBatch(NamedTuple):
    """Sessions as padded rows, on the device.

    Row i of `accepted` has the items that session i accepted, in order, and `upto` says of each of
    its queries how many of them it has by then. `shown` are the items that each step with a next
    query must rank behind it, one row a step, where `real` is set.
    """

    batch: Batch
    accepted: Any
    upto: Any
    shown: Any
    real: Any


def click_batch(
    sessions: Sessions, slates: Slates, which: Ids, drawn: Ids, *, length: int, device: Any
) -> ClickBatch:
    """Return the sessions `which`; `drawn` are further items for each step, (steps, n) or (1, n).

    >>> sessions = Sessions.of([[5, 6, 7]])
    >>> slates = Slates(np.array([False, True, False]), np.array([8, 9]), np.array([0, 1, 2, 2]))
    >>> made = click_batch(sessions, slates, np.array([0]), np.array([[7]]), length=9, device="cpu")
    >>> made.accepted.tolist(), made.upto.tolist()
    ([[6]], [[0, 1]])
    >>> made.shown.tolist(), made.real.tolist()
    ([[8, 7], [9, 7]], [[True, True], [True, False]])
    """
    batch = batch_of(sessions, which, length=length, device=device)
    places, steps = places_of(sessions, which, length)
    flags = slates.accepted[places] & steps
    taken = _first(sessions.arms[places], flags)
    own = places[steps]
    sizes = slates.offsets[own + 1] - slates.offsets[own]
    width = np.arange(int(sizes.max(initial=0)))
    real = width < sizes[:, None]
    at = np.where(real, slates.offsets[own][:, None] + width, 0)
    shown = slates.shown[at] if len(slates.shown) else np.zeros(at.shape, np.int64)
    drawn = np.broadcast_to(drawn, (len(own), drawn.shape[1]))
    shown = np.concatenate([np.where(real, shown, 0), drawn], axis=1)
    real = np.concatenate([real, np.ones(drawn.shape, bool)], axis=1)
    real &= shown != sessions.arms[own + 1][:, None]
    arrays = (taken, flags.cumsum(axis=1), shown, real)
    rows = (torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in arrays)
    return ClickBatch(batch, *rows)


def _first(rows: Ids, flags: NDArray[np.bool_]) -> Ids:
    """Return the flagged entries of each row at its start, padded with item 0.

    >>> _first(np.array([[4, 5, 6], [7, 8, 9]]), np.array([[0, 1, 1], [0, 0, 1]], bool)).tolist()
    [[5, 6], [9, 0]]
    """
    counts = flags.sum(axis=1)
    order = np.argsort(~flags, axis=1, kind="stable")[:, : int(counts.max(initial=0))]
    inside = np.arange(order.shape[1]) < counts[:, None]
    return np.where(inside, np.take_along_axis(rows, order, axis=1), 0)
