"""Arms recalled for a session, with weights."""

from typing import NamedTuple

import numpy as np

from nextquery.sessions import Floats, Ids


class Mentions(NamedTuple):
    """Raw results, one entry per earlier place of a query of the session.

    `near` are arms near it, with `weights` of 1/distance; `followers` came right after the current
    query, `longer` after the same last two queries.
    """

    near: Ids
    weights: Floats
    followers: Ids
    longer: Ids


class Recalled(NamedTuple):
    """Arms recalled for a session, in order of id, with three weights each.

    `followers` and `longer` count how often an arm came right after the current query and after
    the last two; `near` sums 1/distance over the places where it was near any query of the
    session.
    """

    arms: Ids
    followers: Floats
    longer: Floats
    near: Floats

    @classmethod
    def of(cls, mentions: list[Mentions], *, running: bool = True) -> "Recalled":
        """Add up the mentions of several memories. Without a query `running`, none followed it.

        >>> past = Mentions(np.array([9, 7]), np.array([1, 0.5]), np.array([9]), np.array([], int))
        >>> recalled = Recalled.of([past, past])
        >>> recalled.arms.tolist(), recalled.near.tolist(), recalled.followers.tolist()
        ([7, 9], [1.0, 2.0], [0.0, 2.0])
        """
        near = np.concatenate([_NO_IDS, *(part.near for part in mentions)])
        weights = np.concatenate([_NO_WEIGHTS, *(part.weights for part in mentions)])
        arms, place = np.unique(near, return_inverse=True)

        def counted(ids: list[Ids]) -> Floats:  # these are at distance 1, so all are in `near`
            known = np.searchsorted(arms, np.concatenate([_NO_IDS, *(ids if running else [])]))
            return np.bincount(known, minlength=len(arms)).astype(np.float64)

        return cls(
            arms,
            counted([part.followers for part in mentions]),
            counted([part.longer for part in mentions]),
            np.bincount(place, weights, len(arms)).astype(np.float64),
        )

    def suggested(self) -> Ids:
        """Return the recalled arms, best first; ties by id.

        >>> follows, near = np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0])
        >>> Recalled(np.array([7, 8, 9]), follows, np.zeros(3), near).suggested().tolist()
        [9, 7, 8]
        """
        return self.arms[np.lexsort((self.arms, -(self.followers + self.near)))]

    def weights_of(self, arms: Ids) -> tuple[Floats, Floats, Floats]:
        """Return followers, longer and near of some arms; 0 if not recalled."""
        if not len(self.arms):
            return np.zeros(len(arms)), np.zeros(len(arms)), np.zeros(len(arms))
        at = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        here = self.arms[at] == arms
        followers, longer, near = (np.where(here, row[at], 0.0) for row in self[1:])
        return followers, longer, near


_NO_IDS, _NO_WEIGHTS = np.empty(0, np.int64), np.empty(0)
