"""The sessions of a log as a memory: what followed what, what was near what, and how often.

The log itself is the memory. Sessions lie in one long row, in order of time, with an index of
every arm's places in it. "Known so far" is then a position by the clock: only queries dated
before it count. So nothing is stored twice, and the past can be replayed without leaking its
future. `only_seen` restricts a pool to the arms asked so far, for the same reason.

`Mentions` are the raw results: one entry per query found near an earlier place of the session's
own queries.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.sessions import Floats, Ids, Sessions
from nextquery.vectors import compiled

NEAR = 5  # the largest distance at which two queries of a session count as near
_REACH = 2.05  # how fast a match loses weight with distance (λ_inh of STAN, Garg et al. 2019)
DAY = 86_400.0


class Mentions(NamedTuple):
    """Arms near earlier places of a session's queries, with the weights of each entry.

    `near` is 1/distance. `follows` is 1 if the arm came right after the current query, `longer` if
    it came right after the last two. `forward` and `backward` are the weights of STAN: how well the
    past session matches this one, for arms after the match and before it.
    """

    arms: Ids
    near: Floats
    follows: Floats
    longer: Floats
    forward: Floats
    backward: Floats

    @classmethod
    def of(
        cls,
        arms: Ids,
        steps: Ids,
        *,
        follows: NDArray[np.bool_],
        longer: NDArray[np.bool_],
        match: Floats,
        window: Ids,
        faded: Floats | float = 1.0,
    ) -> "Mentions":
        """Weigh the arms found `steps` after (or, if negative, before) a query of the session.

        `match` is the weight of that query in the session, `window` the number of queries that the
        past session had by then (at most 6), and `faded` what age leaves of an entry.

        >>> flags = np.array([True, False])
        >>> found = Mentions.of(np.array([8, 9]), np.array([1, -2]), follows=flags, longer=~flags,
        ...     match=np.ones(2), window=np.array([4, 1]))
        >>> found.near.tolist(), found.follows.tolist(), found.forward.tolist()
        ([1.0, 0.5], [1.0, 0.0], [0.5, 0.0])
        """
        distance = np.abs(steps)
        whole = faded * match / np.sqrt(window) * np.exp(-(distance - 1) / _REACH)
        return cls(
            arms,
            faded / np.maximum(distance, 1),
            np.where(follows, faded, 0.0),
            np.where(longer, faded, 0.0),
            np.where(steps > 0, whole, 0.0),
            np.where(steps < 0, whole, 0.0),
        )


NO_MENTIONS = Mentions(np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))


def decayed(then: Floats | float, now: Floats | float, half_life: float) -> Floats | float:
    """Return what is left now of something that counted 1 then; `half_life` is in days.

    >>> decayed(0.0, 2 * DAY, half_life=1.0)
    0.25
    """
    left: Floats | float = np.exp2(-np.maximum(now - then, 0.0) / (half_life * DAY))
    return left if isinstance(then, np.ndarray) else float(left)


def fading(
    times: Floats, places: Ids, now: float | None, half_life: float | None
) -> Floats | float:
    """Return what age leaves of the queries at these places; 1 without a half-life."""
    if half_life is None or now is None:
        return 1.0
    return decayed(times[places], now, half_life)


_STEPS = np.array([step for step in range(-NEAR, NEAR + 1) if step])


class SessionMemory:
    """Searchable past sessions.

    If the time of every query is known, a position by the clock is the number of queries dated
    before a time. Otherwise sessions are taken as one after the other, in the order given.

    Parameters
    ----------
    sessions : the sessions.
    half_life : days after which a query counts half; None: for ever in full. Without times,
        nothing fades.

    >>> past = Sessions(np.array([7, 8, 9, 7, 8]), np.array([0, 3, 5]))
    >>> memory = SessionMemory(past)
    >>> memory.support(np.array([7, 9]), before=3).tolist()
    [1.0, 1.0]
    >>> memory.followers([7], before=3, most=10).tolist()
    [8]
    """

    def __init__(self, sessions: Sessions, half_life: float | None = None) -> None:
        self.sessions, self.timed = sessions, sessions.timed
        self.half_life = half_life if self.timed else None
        self.arms = int(sessions.arms.max(initial=-1)) + 1  # larger ids do not occur
        self._row = np.asarray(sessions.arms)
        self.positions = np.arange(len(self._row))  # by the clock, of every place
        self._clock = np.empty(0)
        if self.timed:
            order = np.argsort(sessions.asked, kind="stable")
            self.positions[order] = np.arange(len(order))
            self._clock = np.asarray(sessions.asked)[order]
        self._places = np.lexsort((self.positions, self._row))
        self._known = self.positions[self._places]
        self._starts = np.searchsorted(self._row[self._places], np.arange(self.arms + 1))
        self._span = len(self._row) + 1
        self._keys = self._row[self._places] * self._span + self._known
        self.begin = np.repeat(sessions.offsets[:-1], sessions.lengths)  # of every place's session
        self.end = np.repeat(sessions.offsets[1:], sessions.lengths)
        self._fresh = self._summed_by_time()

    def __len__(self) -> int:
        """Return the number of queries, which is also the position after all of them."""
        return len(self._row)

    def position(self, time: float) -> int:
        """Return the number of queries dated before a time."""
        return int(np.searchsorted(self._clock, time))

    def known_at(self, places: Ids) -> Ids:
        """Return the position up to which everything is known when the query at a place is asked.

        By the clock, that is everything dated before it. Without times, all earlier sessions.
        """
        if self.timed:
            return np.searchsorted(self._clock, self.sessions.asked[places])
        return self.begin[places]

    def places(self, arm: int, before: int, most: int) -> Ids:
        """Return the newest `most` places of an arm in the row, before a position."""
        if not 0 <= arm < self.arms:
            return np.empty(0, np.int64)
        start = self._starts[arm]
        end = start + int(np.searchsorted(self._known[start : self._starts[arm + 1]], before))
        return self._places[max(start, end - most) : end]

    def support(self, arms: Ids, before: int, now: float | None = None) -> Floats:
        """Return how often each arm was asked before a position, faded as of `now`."""
        known = (arms >= 0) & (arms < self.arms)
        own = np.where(known, arms, 0)
        if not self.arms:
            return np.zeros(len(arms))
        start = self._starts[own]
        if before >= len(self._row):  # now: all of them
            upto = self._starts[own + 1]
        else:
            upto = np.searchsorted(self._keys, own * self._span + before)
        if self.half_life is None or now is None:
            return np.where(known, upto - start, 0).astype(np.float64)
        newest = np.maximum(upto - 1, 0)
        faded = decayed(self.sessions.asked[self._places[newest]], now, self.half_life)
        return np.where(known & (upto > start), self._fresh[newest] * faded, 0.0)

    def mentions(
        self,
        history: Sequence[int],
        before: int,
        *,
        most: int,
        earlier: int,
        weights: Sequence[float] | None = None,
        now: float | None = None,
    ) -> Mentions:
        """Look up the newest places of a session's queries, before a position.

        Uses `most` places of the last query and `earlier` places of each query before it, so the
        work is bounded however often a query was asked. `weights` say how much a match of each
        query counts.
        """
        last = len(history) - 1
        found = [
            self.places(arm, before, most if number == last else earlier)
            for number, arm in enumerate(history)
        ]
        if not any(map(len, found)):
            return NO_MENTIONS
        place = np.concatenate(found)
        query = np.repeat(np.arange(len(found)), [len(places) for places in found])
        around = place[:, None] + _STEPS
        known = (around >= self.begin[place][:, None]) & (around < self.end[place][:, None])
        known[known] = self.positions[around[known]] < before
        match, column = np.nonzero(known)
        target, step = around[match, column], _STEPS[column]
        place, query = place[match], query[match]
        later = np.maximum(place, target)
        follows = (query == last) & (step == 1)
        longer = follows & (place > self.begin[place])
        if last > 0:
            longer[longer] = self._row[place[longer] - 1] == history[-2]
        else:
            longer[:] = False
        return Mentions.of(
            self._row[target],
            step,
            follows=follows,
            longer=longer,
            match=np.ones(len(query)) if weights is None else np.asarray(weights)[query],
            window=np.minimum(later - self.begin[later], NEAR) + 1,
            faded=fading(self.sessions.asked, later, now, self.half_life),
        )

    def followers(self, history: Sequence[int], before: int, *, length: int = 1, most: int) -> Ids:
        """Return what came right after the same last `length` queries, with repeats.

        Uses the newest `most` places of the last query, before a position.
        """
        if len(history) < length:
            return np.empty(0, np.int64)
        here = self.places(history[-1], before, most)
        here = here[here + 1 < self.end[here]]
        here = here[self.positions[here + 1] < before]
        for back in range(1, length):
            here = here[here - back >= self.begin[here]]
            here = here[self._row[here - back] == history[-1 - back]]
        return self._row[here + 1]

    def later(self, arm: int, before: int, *, steps: int, most: int) -> tuple[Ids, Ids]:
        """Return what came at most `steps` after an arm, with repeats, and how many steps after.

        Uses the newest `most` places of the arm, before a position.

        >>> memory = SessionMemory(Sessions.of([[7, 8, 9], [7, 9]]))
        >>> [found.tolist() for found in memory.later(7, before=5, steps=2, most=10)]
        [[8, 9, 9], [1, 2, 1]]
        """
        here = self.places(arm, before, most)[:, None]
        places = here + np.arange(1, steps + 1)
        known = places < self.end[here]
        known[known] = self.positions[places[known]] < before
        return self._row[places[known]], np.nonzero(known)[1] + 1

    def _summed_by_time(self) -> Floats:
        """Return what is left of an arm's queries up to each place of it, at the time of that."""
        if self.half_life is None:
            return np.zeros(0)
        asked = np.asarray(self.sessions.asked)[self._places]
        left: Floats = np.ones(len(asked))
        same = np.diff(self._row[self._places], prepend=-1) == 0
        compiled(_sum_up)(left, same, decayed(asked, np.append(asked[1:], 0.0), self.half_life))
        return left


def _sum_up(left: Floats, same: NDArray[np.bool_], faded: Floats) -> None:
    """Add to each entry what is left of the one before it, if it is of the same arm."""
    for place in range(1, len(left)):
        if same[place]:
            left[place] += left[place - 1] * faded[place - 1]


def only_seen(pool: ArmPool, first_seen: Ids, before: Sequence[int]) -> tuple[ArmPool, list[Ids]]:
    """Return the pool of arms known to steps at these (rising) places, and what to hide per step.

    `first_seen` is every arm's first place in the row of sessions. Arms that are unknown to all
    steps are removed from the pool, so that one scan serves every step.

    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> seen, hidden = only_seen(pool, np.array([0, 1, 2]), [1, 2])
    >>> len(seen), [ids.tolist() for ids in hidden]
    (2, [[1], []])
    """
    first, last = before[0], before[-1]
    unseen = np.flatnonzero(first_seen >= last)
    known = pool.copy()
    known.remove(unseen)
    newest = np.flatnonzero((first_seen >= first) & (first_seen < last))
    return known, [newest[first_seen[newest] >= place] for place in before]
