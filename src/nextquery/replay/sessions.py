"""Past sessions as arm ids, and the anchors that experiments draw from them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.errors import InvalidInput
from nextquery.replay.seeds import generator
from nextquery.sessions import Sessions

Ids = NDArray[np.int64]


class Anchors(NamedTuple):
    """The start of an anchored experiment: sampled sessions and the first query of each."""

    sessions: Ids
    arms: Ids


def sessions_of(pool: ArmPool) -> Sessions:
    """Return the sessions of the log that a pool was made from."""
    if pool.origin is None:
        raise InvalidInput(
            f"{pool!r} was not made from a log, so it has no sessions to replay. Make a pool "
            "from your log with `nextquery ingest LOG --out POOL`."
        )
    return pool.origin.sessions


def draw_anchors(sessions: Sessions, count: int, seed: int, last: int = 0) -> Anchors:
    """Draw `count` sessions at random (all, if there are fewer), and the first query of each.

    With `last`, draw only from the last `last` sessions of the log, in order of time.

    A session that repeats only its first query has no next query, and is never drawn.

    >>> toy = Sessions(np.array([4, 7, 1, 0]), np.array([0, 3, 4]), np.zeros(2))
    >>> draw_anchors(toy, 10, seed=0)
    Anchors(sessions=array([0]), arms=array([4]))
    """
    lengths = np.diff(sessions.offsets)
    first = sessions.arms[np.minimum(sessions.offsets[:-1], max(len(sessions.arms) - 1, 0))]
    another = sessions.arms != np.repeat(first, lengths)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    eligible = np.flatnonzero(np.bincount(owner[another], minlength=len(lengths)))
    if last:
        eligible = np.intersect1d(eligible, np.argsort(sessions.times, kind="stable")[-last:])
    if not len(eligible):
        raise InvalidInput(
            f"none of the {len(lengths)} sessions has a query after its first one: there is "
            "nothing to predict. Use sessions with at least two different queries."
        )
    rng = generator(seed, "anchors")
    drawn = rng.choice(eligible, min(count, len(eligible)), replace=False)
    return Anchors(drawn, first[drawn])
