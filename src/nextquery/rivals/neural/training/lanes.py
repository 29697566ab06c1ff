"""Session-parallel batches: each lane reads one session after another, one query a step."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.sessions import Ids, Sessions


class LaneStep(NamedTuple):
    """One step of an epoch.

    `lanes` are those that still read, `places` the query of each in the row of all sessions (the
    next one is its target), `fresh` flags lanes that begin a session, whose state is zero.
    """

    lanes: Ids
    places: Ids
    fresh: NDArray[np.bool_]


def lane_steps(sessions: Sessions, lanes: int, *, fewest: int = 1) -> Iterator[LaneStep]:
    """Yield the steps of an epoch, over sessions of two or more queries, in their order.

    A lane that is done takes the next session. At the end lanes fall idle; with fewer than
    `fewest` left, the epoch ends.

    >>> steps = lane_steps(Sessions.of([[0, 1, 2], [3, 4], [5, 6]]), 2)
    >>> [(step.lanes.tolist(), step.places.tolist(), step.fresh.tolist()) for step in steps]
    [([0, 1], [0, 3], [True, True]), ([0, 1], [1, 5], [False, True])]

    Hidasi et al., "Session-based Recommendations with Recurrent Neural Networks", ICLR 2016,
    section 3.1.1.
    """
    starts, ends = sessions.offsets[:-1], sessions.offsets[1:]
    lane = np.arange(min(lanes, sessions.size))
    begun, place, end = len(lane), starts[lane], ends[lane]
    fresh = np.ones(len(lane), bool)
    while len(lane) >= max(1, fewest):
        yield LaneStep(lane, place, fresh)
        place = place + 1
        fresh = place + 1 >= end
        done = np.flatnonzero(fresh)
        following = begun + np.arange(len(done))
        begun += len(done)
        more = following < sessions.size
        place[done[more]], end[done[more]] = starts[following[more]], ends[following[more]]
        stays = np.ones(len(lane), bool)
        stays[done[~more]] = False
        lane, place, end, fresh = lane[stays], place[stays], end[stays], fresh[stays]
