"""STAN: sequence and time aware neighbourhood."""

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.memory import SessionMemory
from nextquery.memory.past import DAY
from nextquery.rivals.base import Rival, Step, summed
from nextquery.rivals.neighbours import NeighbourIndex, Neighbours, best_neighbours
from nextquery.sessions import Floats, Ids


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
