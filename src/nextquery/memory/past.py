"""The sessions of a log as a memory: what followed what, what was near what, and how often.

The log itself is the memory. Sessions lie in order of time in one long row, with an index of every
arm's places in it. "Known so far" is then just a position: only places before it count. So nothing
is stored twice, and the past can be replayed without leaking its future.
"""

from collections.abc import Sequence

import numpy as np

from nextquery.memory.recalled import Mentions
from nextquery.sessions import Ids, Sessions

NEAR = 5  # the largest distance at which two queries of a session count as near
_STEPS = np.array([step for step in range(-NEAR, NEAR + 1) if step])
_WEIGHTS = 1.0 / np.abs(_STEPS)


class SessionMemory:
    """Searchable past sessions.

    >>> past = Sessions(np.array([7, 8, 9, 7, 8]), np.array([0, 3, 5]))
    >>> memory = SessionMemory(past)
    >>> memory.support(np.array([7, 9]), before=3).tolist()
    [1, 1]
    >>> memory.mentions([7], before=3, most=10, earlier=10).followers.tolist()
    [8]
    """

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.arms = int(sessions.arms.max(initial=-1)) + 1  # larger ids do not occur
        self._row = np.asarray(sessions.arms)
        self._places = np.argsort(self._row, kind="stable")
        self._starts = np.searchsorted(self._row[self._places], np.arange(self.arms + 1))
        self._span = len(self._row) + 1
        self._keys = self._row[self._places] * self._span + self._places
        self._begin = np.repeat(sessions.offsets[:-1], sessions.lengths)
        self._end = np.repeat(sessions.offsets[1:], sessions.lengths)

    def __len__(self) -> int:
        """Return the number of queries, which is also the position after all of them."""
        return len(self._row)

    def places(self, arm: int, before: int, most: int) -> Ids:
        """Return the newest `most` places of an arm in the row, before a position."""
        if arm >= self.arms:
            return np.empty(0, np.int64)
        places = self._places[self._starts[arm] : self._starts[arm + 1]]
        end = int(np.searchsorted(places, before))
        return places[max(0, end - most) : end]

    def support(self, arms: Ids, before: int) -> Ids:
        """Return how often each arm was asked before a position."""
        known = arms < self.arms
        own = np.where(known, arms, 0)
        if not self.arms:
            return np.zeros(len(arms), np.int64)
        upto = np.searchsorted(self._keys, own * self._span + before)
        return np.where(known, upto - self._starts[own], 0)

    def mentions(self, history: Sequence[int], before: int, *, most: int, earlier: int) -> Mentions:
        """Look up the newest places of a session's queries, before a position.

        Uses `most` places of the last query and `earlier` places of each query before it, so the
        work is bounded however often a query was asked.
        """
        last = len(history) - 1
        places = [
            self.places(arm, before, most if number == last else earlier)
            for number, arm in enumerate(history)
        ]
        everywhere = np.concatenate([np.empty(0, np.int64), *places])
        around = everywhere[:, None] + _STEPS
        inside = around >= self._begin[everywhere][:, None]
        inside &= around < self._end[everywhere][:, None]
        weights = np.broadcast_to(_WEIGHTS, around.shape)[inside]
        followers = self.followers(history, before, most=most)
        longer = self.followers(history, before, length=2, most=most)
        return Mentions(self._row[around[inside]], weights, followers, longer)

    def followers(self, history: Sequence[int], before: int, *, length: int = 1, most: int) -> Ids:
        """Return what came right after the same last `length` queries, with repeats.

        Uses the newest `most` places of the last query, before a position.
        """
        if len(history) < length:
            return np.empty(0, np.int64)
        here = self.places(history[-1], before, most)
        here = here[here + 1 < self._end[here]]
        for back in range(1, length):
            here = here[here - back >= self._begin[here]]
            here = here[self._row[here - back] == history[-1 - back]]
        return self._row[here + 1]
