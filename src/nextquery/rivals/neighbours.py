"""Neighbours: past sessions that share queries with the running one, as they are known by then."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.memory import SessionMemory
from nextquery.rivals.base import Step
from nextquery.sessions import Ids

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
        whose, arms = self._owner[order], sessions.arms[order]
        again = (whose[1:] == whose[:-1]) & (arms[1:] == arms[:-1])
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
