"""The features of a candidate for a small linear model."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import among
from nextquery.memory.own_recall import Own
from nextquery.memory.recalled import Recalled
from nextquery.sessions import Floats, Ids

FEATURES = (
    "constant",
    "similarity",
    "share of followers",
    "log followers",
    "log followers of the last two",
    "log nearness",
    "relative nearness",
    "log support",
    "matching sessions, forward",
    "matching sessions, backward",
    "return",
    "own",
    "log own count",
    "own recency",
    "log own followers",
)
"""New features come last: a model that was saved with fewer goes on (`Ridge.take_over`)."""
KINDS = ("own", "return", "sessions", "similar")
DOUBT = 3.0  # followers that are assumed to have been something else: few of them prove little
_FOLLOWERS, _NEARNESS = FEATURES.index("log followers"), FEATURES.index("log nearness")
_RETURN, _OWN = FEATURES.index("return"), FEATURES.index("own")


class Evidence(NamedTuple):
    """What the memories know of a step: see `Recalled` and `Own`; `returns` are earlier queries."""

    recalled: Recalled
    support: Floats
    returns: Ids
    own: Own


def memory_features(arms: Ids, similarities: Floats, evidence: Evidence) -> NDArray[np.float32]:
    """Return one row of `FEATURES` per arm: how similar, how usual next, how often asked, by whom.

    >>> from nextquery.memory.own_recall import NOTHING
    >>> three, none = np.array([3.0, 1.0]), np.zeros(2)
    >>> recalled = Recalled(np.array([7, 9]), np.array([2.0, 0.0]), three, none, three, none)
    >>> evidence = Evidence(recalled, np.array([4.0]), np.array([7]), NOTHING)
    >>> row = memory_features(np.array([7]), np.array([0.5]), evidence)[0].astype(float)
    >>> row[:4].round(2).tolist(), row[8:12].tolist()
    ([1.0, 0.5, 0.43, 1.39], [0.75, 0.0, 1.0, 0.0])
    """
    recalled, own = evidence.recalled, evidence.own
    here = recalled.weights_of(arms)
    mine = _of_own(arms, own)
    columns: tuple[Floats | NDArray[np.bool_] | float, ...] = (
        1.0,
        similarities,
        here.follows / (float(recalled.follows.sum()) + DOUBT),
        np.log1p(here.follows),
        np.log1p(here.longer),
        np.log1p(here.near),
        here.near / max(float(here.near.max(initial=0.0)), 1e-12),
        np.log1p(evidence.support),
        here.forward / max(float(recalled.forward.sum()), 1e-12),
        here.backward / max(float(recalled.backward.sum()), 1e-12),
        among(arms, evidence.returns),
        mine[0] > 0,
        np.log1p(mine[0]),
        mine[1],
        np.log1p(mine[2]),
    )
    features = np.empty((len(arms), len(FEATURES)), np.float32)
    for number, column in enumerate(columns):
        features[:, number] = column
    return features


def kind_of(features: NDArray[np.floating]) -> str:
    """Return why a candidate is there, from its features: one of `KINDS`.

    >>> kind_of(np.eye(len(FEATURES))[FEATURES.index("own")]), kind_of(np.zeros(len(FEATURES)))
    ('own', 'similar')
    """
    if features[_RETURN]:
        return "return"
    if features[_OWN]:
        return "own"
    return "sessions" if features[_FOLLOWERS] or features[_NEARNESS] else "similar"


def _of_own(arms: Ids, own: Own) -> tuple[Floats, Floats, Floats]:
    """Return count, recency and followers of each arm in a person's own past; 0 if not there."""
    if not len(own.ids):
        return np.zeros(len(arms)), np.zeros(len(arms)), np.zeros(len(arms))
    order = np.argsort(own.ids)
    at = order[np.minimum(np.searchsorted(own.ids, arms, sorter=order), len(order) - 1)]
    here = own.ids[at] == arms
    counts, recency, follows = (
        np.where(here, column[at], 0.0) for column in (own.counts, own.recency, own.follows)
    )
    return counts, recency, follows
