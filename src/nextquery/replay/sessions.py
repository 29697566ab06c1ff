"""Past sessions as arm ids, and the anchors that an experiment draws from them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.errors import InvalidInput
from nextquery.memory import PastSessions
from nextquery.replay.seeds import generator

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]


class Anchors(NamedTuple):
    """Where an anchored experiment starts: sampled sessions, and the first query of each."""

    sessions: Ids
    arms: Ids


def checked(sessions: PastSessions, pool: ArmPool) -> PastSessions:
    """The sessions with the types the experiments count on, or an error that says what is wrong."""
    arms, offsets = np.asarray(sessions.arms), np.asarray(sessions.offsets)
    times = np.asarray(sessions.times, np.float64)
    whole = arms.dtype.kind in "iu" and offsets.dtype.kind in "iu"
    if not whole or arms.ndim != 1 or offsets.ndim != 1 or len(offsets) == 0:
        raise InvalidInput(
            f"sessions must hold two rows of whole numbers, arms and offsets; received {arms.dtype}"
            f" of shape {arms.shape} and {offsets.dtype} of shape {offsets.shape}."
        )
    if offsets[0] != 0 or offsets[-1] != len(arms) or (np.diff(offsets) < 0).any():
        raise InvalidInput(
            f"offsets must rise from 0 to the number of arms, {len(arms)}; received "
            f"{offsets[0]} … {offsets[-1]}. Session i is arms[offsets[i]:offsets[i+1]]."
        )
    if times.shape != (len(offsets) - 1,):
        raise InvalidInput(
            f"times must hold one number per session, {len(offsets) - 1}; received shape "
            f"{times.shape}."
        )
    if len(arms) and (arms.min() < 0 or arms.max() >= pool.rows_in_all):
        raise InvalidInput(
            f"sessions name arms from {arms.min()} to {arms.max()}; this pool has ids from 0 to "
            f"{pool.rows_in_all - 1}. Give the pool that the sessions were made with."
        )
    return PastSessions(arms.astype(np.int64), offsets.astype(np.int64), times)


def draw_anchors(sessions: PastSessions, count: int, seed: int, last: int = 0) -> Anchors:
    """`count` sessions at random (all, when there are fewer), and the first query of each.

    With `last`, only from so many sessions at the end of the log, in order of time.

    A session in which nothing but its first query occurs has no next query, and is never drawn.

    >>> toy = PastSessions(np.array([4, 7, 1, 0]), np.array([0, 3, 4]), np.zeros(2))
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
            "nothing to foresee. Give sessions of at least two different queries."
        )
    rng = generator(seed, "anchors")
    drawn = rng.choice(eligible, min(count, len(eligible)), replace=False)
    return Anchors(drawn, first[drawn])
