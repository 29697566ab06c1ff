"""What a memory recalls for a session: arms, and how strongly earlier sessions speak for each."""

from typing import NamedTuple

import numpy as np

from nextquery.sessions import Floats, Ids


class Mentions(NamedTuple):
    """Raw findings, one entry per place where a query of the session stood before.

    `near` are arms that stood near it, with `weights` of 1/distance; `followers` came right after
    the query now running, `longer` after the same last two queries.
    """

    near: Ids
    weights: Floats
    followers: Ids
    longer: Ids


class Recalled(NamedTuple):
    """Arms recalled for a session, in order of id, with three weights each.

    `followers` and `longer` count how often an arm came right after the query now running and
    after the last two; `near` sums 1/distance over the places where it stood near any query of the
    session.
    """

    arms: Ids
    followers: Floats
    longer: Floats
    near: Floats

    @classmethod
    def of(cls, mentions: list[Mentions], *, running: bool = True) -> "Recalled":
        """Findings of several memories added up. Without a query `running`, nothing followed it.

        >>> one = Mentions(np.array([9, 7]), np.array([1.0, 0.5]), np.array([9]), np.array([], int))
        >>> recalled = Recalled.of([one, one])
        >>> recalled.arms.tolist(), recalled.near.tolist(), recalled.followers.tolist()
        ([7, 9], [1.0, 2.0], [0.0, 2.0])
        """
        near = np.concatenate([_NO_IDS, *(found.near for found in mentions)])
        weights = np.concatenate([_NO_WEIGHTS, *(found.weights for found in mentions)])
        arms, place = np.unique(near, return_inverse=True)

        def counted(found: list[Ids]) -> Floats:  # at distance 1, so all of them are near as well
            known = np.searchsorted(arms, np.concatenate([_NO_IDS, *(found if running else [])]))
            return np.bincount(known, minlength=len(arms)).astype(np.float64)

        return cls(
            arms,
            counted([found.followers for found in mentions]),
            counted([found.longer for found in mentions]),
            np.bincount(place, weights, len(arms)).astype(np.float64),
        )

    def suggested(self) -> Ids:
        """The arms worth a try, best first; ties by id.

        >>> follows, near = np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0])
        >>> Recalled(np.array([7, 8, 9]), follows, np.zeros(3), near).suggested().tolist()
        [9, 7, 8]
        """
        return self.arms[np.lexsort((self.arms, -(self.followers + self.near)))]

    def weights_of(self, arms: Ids) -> tuple[Floats, Floats, Floats]:
        """Followers, longer and near of some arms; 0 for what is not recalled."""
        if not len(self.arms):
            return np.zeros(len(arms)), np.zeros(len(arms)), np.zeros(len(arms))
        at = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        here = self.arms[at] == arms
        followers, longer, near = (np.where(here, row[at], 0.0) for row in self[1:])
        return followers, longer, near


_NO_IDS, _NO_WEIGHTS = np.empty(0, np.int64), np.empty(0)
