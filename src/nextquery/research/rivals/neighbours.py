"""Rivals with neighbours: past sessions that share queries with the current session.

Only the part of a past session that is known at that time counts.

- *S-KNN*: session-based k nearest neighbours.
- *VS-KNN*: vector multiplication session-based k nearest neighbours.
- *STAN*: sequence and time aware neighbourhood.
- *VSTAN*: STAN with the ideas of VS-KNN.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, one_of, whole_number
from nextquery.memory import SessionMemory
from nextquery.memory.past import DAY
from nextquery.research.rivals.rival import Rival, Step, summed
from nextquery.sessions import Floats, Ids

_QUERIES = 20  # latest different queries of the session by which neighbours are found


class Neighbours(NamedTuple):
    """The known queries of neighbour sessions, each session's together and in order.

    Parameters
    ----------
    places : where they are in the memory's row.
    arms : what they are.
    shared : where each stands (last) in the running session, from 1; 0: not there.
    first : whether it is the first of its kind in its neighbour.
    owner : the number of its neighbour here; 0 is the one with the newest shared query.
    starts : where each neighbour begins in these arrays.
    """

    places: Ids
    arms: Ids
    shared: Ids
    first: NDArray[np.bool_]
    owner: Ids
    starts: Ids

    def of(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which queries belong to the neighbours chosen."""
        flags: NDArray[np.bool_] = chosen[self.owner]
        return flags


class NeighbourIndex:
    """Finds neighbours of sessions in a memory.

    >>> from nextquery.sessions import Sessions
    >>> index = NeighbourIndex(SessionMemory(Sessions.of([[0, 1], [5, 6], [7, 1, 0]])))
    >>> found = index.find(Step(before=6, history=[1]), sample=10)
    >>> found.arms.tolist(), found.shared.tolist(), found.owner.tolist()
    ([7, 1, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1])
    """

    def __init__(self, memory: SessionMemory) -> None:
        self.memory, sessions = memory, memory.sessions
        self._owner = np.repeat(np.arange(sessions.size), sessions.lengths)
        order = np.lexsort((memory.positions, sessions.arms, self._owner))
        owners, arms = self._owner[order], sessions.arms[order]
        again = (owners[1:] == owners[:-1]) & (arms[1:] == arms[:-1])
        self._first = np.ones(len(order), bool)
        self._first[order[1:][again]] = False

    def find(self, step: Step, *, sample: int) -> Neighbours:
        """Return the `sample` sessions whose shared query is newest, without the running one.

        Looks at the newest `sample` places of each of the session's latest 20 different queries, so
        the work is bounded however often a query was asked.
        """
        memory, row = self.memory, self.memory.sessions.arms
        last = {arm: at for at, arm in enumerate(step.history, 1) if 0 <= arm < memory.arms}
        latest = sorted(last, key=lambda arm: -last[arm])[:_QUERIES]
        found = [memory.places(arm, step.before, sample) for arm in latest]
        chosen = self._newest(np.concatenate([np.empty(0, np.int64), *found]), step, sample)
        places, owner = spans(memory.sessions.offsets[chosen], memory.sessions.lengths[chosen])
        known = memory.positions[places] < step.before
        places, owner = places[known], owner[known]
        shared = np.zeros(memory.arms, np.int64)
        shared[list(last)] = list(last.values())
        arms = row[places]
        begin = np.searchsorted(owner, np.arange(len(chosen)))
        return Neighbours(places, arms, shared[arms], self._first[places], owner, begin)

    def _newest(self, places: Ids, step: Step, sample: int) -> Ids:
        """Return the sessions of these places, the newest place first."""
        places = places[np.argsort(-self.memory.positions[places])]
        owner = self._owner[places]
        if step.session is not None:
            owner = owner[owner != step.session]
        sessions, at = np.unique(owner, return_index=True)
        newest: Ids = sessions[np.argsort(at)][:sample]
        return newest


def spans(starts: Ids, lengths: Ids) -> tuple[Ids, Ids]:
    """Return the places of several spans, one after the other, and which span each belongs to.

    >>> [found.tolist() for found in spans(np.array([7, 3]), np.array([2, 1]))]
    [[7, 8, 3], [0, 0, 1]]
    """
    begin = starts - np.cumsum(lengths) + lengths
    places = np.repeat(begin, lengths) + np.arange(lengths.sum())
    return places, np.repeat(np.arange(len(starts)), lengths)


def best_neighbours(similarities: NDArray[np.float64], most: int) -> NDArray[np.bool_]:
    """Return which `most` neighbours are most similar; among equals, those with lower numbers.

    >>> best_neighbours(np.array([0.1, 0.5, 0.1]), 2).tolist()
    [True, True, False]
    """
    chosen = np.zeros(len(similarities), bool)
    chosen[np.argsort(-similarities, kind="stable")[:most]] = True
    return chosen


SIMILARITIES = ("cosine", "jaccard")


class SKnn(Rival):
    """Recommend the queries of past sessions that share many queries with this one.

    Let s and n be the sets of queries of the session and of a past session:

    - sim(n) = |s ∩ n| / √(|s|·|n|) (``cosine``) or |s ∩ n| / |s ∪ n| (``jaccard``)
    - score(x) = Σ sim(n) over the `neighbours` most similar n that contain x

    The order within a session does not count.

    Parameters
    ----------
    neighbours : number of past sessions that count, at least 1.
    sample : number of newest past sessions, sharing a query, to choose them from, at least 1.
    similarity : ``cosine`` or ``jaccard``.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1, 2], [1, 3], [0, 4, 5, 6]]))
    >>> SKnn(past).rank(Step(before=9, history=[0, 1]), 5).tolist()
    [2, 3, 4, 5, 6]

    Jannach and Ludewig, "When Recurrent Neural Networks meet the Neighborhood for Session-Based
    Recommendation", RecSys 2017.
    """

    def __init__(
        self,
        memory: SessionMemory,
        *,
        neighbours: int = 500,
        sample: int = 1000,
        similarity: str = "cosine",
    ) -> None:
        super().__init__(memory)
        self.neighbours = whole_number(neighbours, "neighbours", at_least=1)
        self.sample = whole_number(sample, "sample", at_least=1)
        self.similarity = one_of(similarity, "similarity", SIMILARITIES)
        self._index = NeighbourIndex(memory)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        found = self._index.find(step, sample=self.sample)
        if not len(found.starts):
            return np.empty(0, np.int64), np.empty(0)
        common = np.bincount(found.owner, found.first & (found.shared > 0))
        size, own = np.bincount(found.owner, found.first), len(set(step.history))
        cosine = self.similarity == "cosine"
        similarities = common / (np.sqrt(own * size) if cosine else own + size - common)
        used = found.first & found.of(best_neighbours(similarities, self.neighbours))
        return summed(found.arms[used], similarities[found.owner[used]])


class Stan(Rival):
    """Recommend what stood near the shared queries in similar, recent past sessions.

    Let s be the session, of l queries, at time t, and n a past session, last asked in at time t_n:

    - weight of the query at place i of s: w = exp((i − l)/`position_decay`) (of repeated queries,
      the last place counts)
    - sim(n) = Σ w(x) over the queries x in both / (√(Σ w(x)² over s)·√(different queries of n))
      · exp(−(t − t_n)/`session_days`)
    - score(x) = Σ sim(n)·exp(−distance/`distance_decay`) over the `neighbours` most similar n that
      contain x, where distance is the number of steps in n between x and the last query of n that
      is also in s (of repeated queries of n, the last place counts)

    Without times, the age of n does not count.

    Parameters
    ----------
    session_days : days after which a past session counts 1/e (λ_snh), above 0; None: for ever in
        full. Set it to the pace of your log.
    position_decay : queries after which a query of the session counts 1/e (λ_spw), above 0.
    distance_decay : steps after which a query of n counts 1/e (λ_inh), above 0.
    neighbours : number of past sessions that count, at least 1.
    sample : number of newest past sessions, sharing a query, to choose them from, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1, 2, 3], [4, 1]]))
    >>> Stan(past).rank(Step(before=6, history=[1]), 5).tolist()
    [4, 0, 2, 3]

    Garg et al., "Sequence and Time Aware Neighborhood for Session-based Recommendations: STAN",
    SIGIR 2019.
    """

    def __init__(
        self,
        memory: SessionMemory,
        *,
        session_days: float | None = 5.0,
        position_decay: float = 1.02,
        distance_decay: float = 2.05,
        neighbours: int = 500,
        sample: int = 5000,
    ) -> None:
        super().__init__(memory)
        if session_days is not None:
            session_days = number(session_days, "session_days", low=0, above_low=True)
        self.session_days = session_days
        self.position_decay = number(position_decay, "position_decay", low=0, above_low=True)
        self.distance_decay = number(distance_decay, "distance_decay", low=0, above_low=True)
        self.neighbours = whole_number(neighbours, "neighbours", at_least=1)
        self.sample = whole_number(sample, "sample", at_least=1)
        self._index = NeighbourIndex(memory)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        found = self._index.find(step, sample=self.sample)
        if not len(found.starts):
            return np.empty(0, np.int64), np.empty(0)
        similarities = self._similarities(step, found)
        centres = np.maximum.reduceat(np.where(found.shared > 0, found.places, -1), found.starts)
        used = np.flatnonzero(found.of(best_neighbours(similarities, self.neighbours)))
        arms, owner = found.arms[used], found.owner[used]
        distances = np.abs(found.places[used] - centres[owner])
        weights = similarities[owner] * np.exp(-distances / self.distance_decay)
        weights *= self._emphasis(step, found, used)
        once = _last(arms, owner)
        return summed(arms[once], weights[once])

    def _similarities(self, step: Step, found: Neighbours) -> Floats:
        """Return how similar each neighbour is, up to a factor that is the same for all."""
        length = len(step.history)
        places = np.array(list({arm: at for at, arm in enumerate(step.history, 1)}.values()))
        own = np.exp((places - length) / self.position_decay)
        matched = found.first & (found.shared > 0)
        weights = np.where(matched, np.exp((found.shared - length) / self.position_decay), 0.0)
        lengths = np.bincount(found.owner, found.first)
        similarities: Floats = np.bincount(found.owner, weights) / np.sqrt(lengths * (own @ own))
        return similarities * self._left_by_age(step, found)

    def _emphasis(self, step: Step, found: Neighbours, used: Ids) -> Floats | float:
        """Return a factor for each of the queries `used`."""
        return 1.0

    def _left_by_age(self, step: Step, found: Neighbours) -> Floats | float:
        """Return what age leaves of each neighbour, relative to the youngest.

        Only ratios matter, and the factors of very old sessions would all be 0.
        """
        if self.session_days is None or not self.memory.timed or not step.time:
            return 1.0
        asked = self.memory.sessions.asked[found.places]
        ages = np.maximum(step.time - np.maximum.reduceat(asked, found.starts), 0.0)
        left: Floats = np.exp(-(ages - ages.min()) / (self.session_days * DAY))
        return left


def _last(arms: Ids, owner: Ids) -> NDArray[np.bool_]:
    """Return which queries count: of a query repeated in a neighbour, the last.

    >>> _last(np.array([5, 6, 5]), np.zeros(3, int)).tolist()
    [False, True, True]
    """
    order = np.lexsort((arms, owner))  # stable, so in order of place
    again = (arms[order][1:] == arms[order][:-1]) & (owner[order][1:] == owner[order][:-1])
    once = np.ones(len(order), bool)
    once[order[:-1][again]] = False
    return once


class VsKnn(Rival):
    """Recommend the queries of past sessions that share the session's latest queries.

    Let s be the session, of l queries, and n a past session:

    - weight of the query at place i of s: w = i/l (of repeated queries, the last place counts)
    - sim(n) = Σ w(x) over the queries x in both, divided by the number of different queries of s
    - score(x) = Σ sim(n)/step(n) over the `neighbours` most similar n that contain x, where step(n)
      is 1 if the last query of s is in n, 2 if only the one before it is, and so on

    Parameters
    ----------
    neighbours : number of past sessions that count, at least 1.
    sample : number of newest past sessions, sharing a query, to choose them from, at least 1.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1, 2], [1, 3], [0, 4]]))
    >>> VsKnn(past).rank(Step(before=7, history=[0, 1]), 5).tolist()
    [2, 3, 4]

    Ludewig and Jannach, "Evaluation of Session-based Recommendation Algorithms", 2018.
    """

    def __init__(self, memory: SessionMemory, *, neighbours: int = 500, sample: int = 1000) -> None:
        super().__init__(memory)
        self.neighbours = whole_number(neighbours, "neighbours", at_least=1)
        self.sample = whole_number(sample, "sample", at_least=1)
        self._index = NeighbourIndex(memory)

    def _scored(self, step: Step) -> tuple[Ids, Floats]:
        found = self._index.find(step, sample=self.sample)
        if not len(found.starts):
            return np.empty(0, np.int64), np.empty(0)
        length = len(step.history)
        weights = found.first * found.shared / length
        similarities = np.bincount(found.owner, weights) / len(set(step.history))
        decayed = similarities / (length + 1 - np.maximum.reduceat(found.shared, found.starts))
        used = found.first & found.of(best_neighbours(similarities, self.neighbours))
        return summed(found.arms[used], decayed[found.owner[used]])


class VStan(Stan):
    """Recommend as STAN does, but prefer rare queries, and neighbours that know the latest ones.

    Let s be the session, of l queries. Each term sim(n)·exp(−distance/`distance_decay`) of STAN is
    multiplied by

    - exp((i − l)/`match_decay`), where i is the place in s of its latest query that is also in n
    - 1 + `rarity`·idf(x), where idf(x) = log(known sessions / how often x was asked), at least 0

    Parameters
    ----------
    session_days, position_decay, distance_decay, neighbours, sample : as in `Stan`.
    match_decay : queries after which the latest shared query counts 1/e (λ_ipw), above 0.
    rarity : how much rare queries are preferred (λ_idf), at least 0.

    >>> from nextquery.sessions import Sessions
    >>> past = SessionMemory(Sessions.of([[0, 1], [0, 2], [3, 1], [4, 1]]))
    >>> VStan(past).rank(Step(before=8, history=[0]), 5).tolist()  # 1 is asked more often than 2
    [2, 1]

    Ludewig, Mauro, Latifi and Jannach, "Empirical Analysis of Session-Based Recommendation
    Algorithms", 2020.
    """

    def __init__(
        self,
        memory: SessionMemory,
        *,
        session_days: float | None = 5.0,
        position_decay: float = 1.02,
        distance_decay: float = 2.05,
        match_decay: float = 1.02,
        rarity: float = 5.0,
        neighbours: int = 500,
        sample: int = 5000,
    ) -> None:
        super().__init__(
            memory,
            session_days=session_days,
            position_decay=position_decay,
            distance_decay=distance_decay,
            neighbours=neighbours,
            sample=sample,
        )
        self.match_decay = number(match_decay, "match_decay", low=0, above_low=True)
        self.rarity = number(rarity, "rarity", low=0)
        begun = memory.sessions.offsets[:-1][memory.sessions.lengths > 0]
        self._begun = np.sort(memory.positions[begun])

    def _emphasis(self, step: Step, found: Neighbours, used: Ids) -> Floats:
        latest = np.maximum.reduceat(found.shared, found.starts)[found.owner[used]]
        matched = np.exp((latest - len(step.history)) / self.match_decay)
        asked = self.memory.support(found.arms[used], step.before)
        known = int(np.searchsorted(self._begun, step.before))
        emphasis: Floats = matched * (1.0 + self.rarity * np.log(np.maximum(known / asked, 1.0)))
        return emphasis
