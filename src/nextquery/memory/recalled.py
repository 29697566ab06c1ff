"""Arms recalled for a session, with weights."""

from typing import NamedTuple

import numpy as np

from nextquery.memory.mentions import Mentions
from nextquery.sessions import Floats, Ids


class Recalled(NamedTuple):
    """Arms recalled for a session, in order of id, with the sums of their weights in `Mentions`."""

    arms: Ids
    near: Floats
    follows: Floats
    longer: Floats
    forward: Floats
    backward: Floats

    @classmethod
    def of(cls, mentions: list[Mentions], *, running: bool = True) -> "Recalled":
        """Add up the mentions of several memories. Without a query `running`, none followed it.

        >>> one, none = np.ones(2), np.zeros(2)
        >>> past = Mentions(np.array([9, 7]), np.array([1, 0.5]), none, none, one, none)
        >>> recalled = Recalled.of([past, past])
        >>> recalled.arms.tolist(), recalled.near.tolist(), recalled.forward.tolist()
        ([7, 9], [1.0, 2.0], [2.0, 2.0])
        """
        some = [mentioned for mentioned in mentions if len(mentioned.arms)]
        if not some:
            return NOTHING_RECALLED
        joined = [np.concatenate(columns) for columns in zip(*some, strict=True)]
        found, weights = joined[0], joined[1:]
        arms, place = np.unique(found, return_inverse=True)
        sums = [np.bincount(place, column, len(arms)).astype(np.float64) for column in weights]
        if not running:
            sums[1], sums[2] = np.zeros(len(arms)), np.zeros(len(arms))
        return cls(arms, *sums)

    def suggested(self) -> Ids:
        """Return the recalled arms, best first; ties by id.

        >>> follows, near, none = np.array([1.0, 0.0, 0.0]), np.array([1.0, 2.0, 3.0]), np.zeros(3)
        >>> Recalled(np.array([7, 8, 9]), near, follows, none, none, none).suggested().tolist()
        [9, 7, 8]
        """
        return self.arms[np.lexsort((self.arms, -(self.follows + self.near)))]

    def weights_of(self, arms: Ids) -> "Recalled":
        """Return the weights of some arms; 0 if not recalled."""
        if not len(self.arms):
            return Recalled(arms, *(np.zeros(len(arms)) for _ in self[1:]))
        at = np.minimum(np.searchsorted(self.arms, arms), len(self.arms) - 1)
        here = self.arms[at] == arms
        return Recalled(arms, *(np.where(here, row[at], 0.0) for row in self[1:]))


NOTHING_RECALLED = Recalled(np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))
