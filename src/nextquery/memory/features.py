"""The eight features of a candidate for a small linear model."""

import numpy as np
from numpy.typing import NDArray

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
)


def memory_features(
    arms: Ids, similarities: Floats, recalled: Recalled, support: Ids
) -> NDArray[np.float32]:
    """Return one row of `FEATURES` per arm: how similar, how usual next, how often asked.

    >>> three, none = np.array([3.0, 1.0]), np.zeros(2)
    >>> recalled = Recalled(np.array([7, 9]), three, none, np.array([2.0, 0.0]))
    >>> row = memory_features(np.array([7]), np.array([0.5]), recalled, np.array([4]))
    >>> row[0, :4].astype(float).round(2).tolist()
    [1.0, 0.5, 0.75, 1.39]
    """
    follows, longer, near = recalled.weights_of(arms)
    columns = [
        np.ones(len(arms)),
        similarities,
        follows / max(float(recalled.followers.sum()), 1.0),
        np.log1p(follows),
        np.log1p(longer),
        np.log1p(near),
        near / max(float(near.max(initial=0.0)), 1e-12),
        np.log1p(support),
    ]
    return np.stack(columns, axis=1).astype(np.float32)
