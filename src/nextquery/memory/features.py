"""The eight numbers that a small linear model sees of a candidate."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


class Recalled(NamedTuple):
    """What a memory says of a session: arms with weights.

    `followers` came after the query now running, `longer` after the last two, `near` stood near
    any query of the session.
    """

    followers: Mapping[int, float]
    longer: Mapping[int, float]
    near: Mapping[int, float]

    def suggested(self) -> Ids:
        """The arms worth a try, best first; ties by id.

        >>> Recalled({7: 1.0}, {}, {7: 1.0, 9: 3.0, 8: 2.0}).suggested().tolist()
        [9, 7, 8]
        """
        arms = {*self.followers, *self.near}
        weights = {arm: self.followers.get(arm, 0.0) + self.near.get(arm, 0.0) for arm in arms}
        return np.array(sorted(weights, key=lambda arm: (-weights[arm], arm)), np.int64)


def memory_features(
    arms: Ids, similarities: Floats, recalled: Recalled, support: NDArray[np.int64]
) -> NDArray[np.float32]:
    """One row per arm, in the order of `FEATURES`: how similar, how usual next, how well tried.

    >>> recalled = Recalled({7: 3.0, 9: 1.0}, {}, {7: 2.0})
    >>> row = memory_features(np.array([7]), np.array([0.5]), recalled, np.array([4]))
    >>> row[0, :4].astype(float).round(2).tolist()
    [1.0, 0.5, 0.75, 1.39]
    """
    find = _Finder(arms)
    follows, near_by = find.values(recalled.followers), find.values(recalled.near)
    columns = [
        np.ones(len(arms)),
        similarities,
        follows / max(sum(recalled.followers.values()), 1.0),
        np.log1p(follows),
        np.log1p(find.values(recalled.longer)),
        np.log1p(near_by),
        near_by / max(float(near_by.max(initial=0.0)), 1e-12),
        np.log1p(support),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


class _Finder:
    """The weights of some arms: what is remembered is little, so that is what is looked up."""

    def __init__(self, arms: Ids) -> None:
        self._order = np.argsort(arms, kind="stable")
        self._sorted = arms[self._order]

    def values(self, weights: Mapping[int, float]) -> Floats:
        """The weight of every arm, 0 where there is none."""
        found = np.zeros(len(self._sorted))
        if not weights or not len(found):
            return found
        keys = np.fromiter(weights.keys(), np.int64, len(weights))
        values = np.fromiter(weights.values(), np.float64, len(weights))
        place = np.minimum(np.searchsorted(self._sorted, keys), len(found) - 1)
        here = self._sorted[place] == keys
        found[self._order[place[here]]] = values[here]
        return found
