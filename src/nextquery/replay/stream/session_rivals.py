"""The stream's rivals: recommenders that count earlier sessions, and learn from no outcome."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from nextquery.memory import SessionMemory
from nextquery.select.base import Candidates
from nextquery.sessions import Ids

_HIDDEN = 300  # more than a session remembers of its queries and of what it was shown
_PLACES = 10_000  # newest places of a query that an n-gram looks at


class Step(NamedTuple):
    """One step of the stream: the session up to the query now running, and what is selected for it.

    `before` is the position in the log up to which everything may be known: the session's start.
    `hidden` are arms that must not be recommended again: what the session was shown.
    """

    before: int
    history: list[int]
    selected: Candidates
    hidden: Collection[int] = ()


class Rival(ABC):
    """Recommends up to m queries for a step, best first, from what earlier sessions say."""

    def __init__(self, memory: SessionMemory) -> None:
        self.memory = memory

    @abstractmethod
    def rank(self, step: Step, m: int) -> Ids:
        """The recommended arms, best first."""


class Popularity(Rival):
    """The queries asked most often so far, whatever is running now."""

    def __init__(self, memory: SessionMemory) -> None:
        super().__init__(memory)
        self._before, self._counts = 0, np.zeros(memory.arms, np.int64)
        self._ranking = np.empty(0, np.int64)

    def rank(self, step: Step, m: int) -> Ids:
        """The most frequent arms that the session has not seen."""
        if step.before != self._before:
            new = self.memory.sessions.arms[self._before : step.before]
            self._counts += np.bincount(new, minlength=self.memory.arms)
            few = min(m + _HIDDEN, len(self._counts))
            top = np.argpartition(-self._counts, few - 1)[:few]
            top = top[self._counts[top] > 0]
            self._before = step.before
            self._ranking = top[np.lexsort((top, -self._counts[top]))]
        return _fresh(self._ranking, step)[:m]


class SimilarityAndSupport(Rival):
    """Similar queries that many have asked (after Baeza-Yates, Hurtado and Mendoza 2004).

    score = ½·similarity + ½·log(1 + support)/log(1 + the largest support among the candidates): how
    near, and how well tried.
    """

    def rank(self, step: Step, m: int) -> Ids:
        """The candidates by their score."""
        arms = step.selected.arms
        support = np.log1p(self.memory.support(arms, step.before))
        scaled = support / max(float(support.max(initial=0.0)), 1e-12)
        scores = 0.5 * step.selected.similarities + 0.5 * scaled
        return _fresh(arms[np.lexsort((arms, -scores))], step)[:m]


class NGram(Rival):
    """What followed in earlier sessions (variable-memory N-grams, after He et al. 2009).

    The longest end of the session that was ever seen decides; where it has too few followers, the
    next shorter one fills up.
    """

    longest = 3

    def rank(self, step: Step, m: int) -> Ids:
        """Followers of the longest memory first, each by its count."""
        ranking: dict[int, None] = {}
        for length in range(min(self.longest, len(step.history)), 0, -1):
            found = self.memory.followers(step.history, step.before, length=length, most=_PLACES)
            arms, counts = np.unique(found, return_counts=True)
            ranking.update(dict.fromkeys(arms[np.lexsort((arms, -counts))].tolist()))
        return _fresh(np.array(list(ranking), np.int64), step)[:m]


RIVALS: dict[str, type[Rival]] = {
    "popularity": Popularity,
    "similarity-support": SimilarityAndSupport,
    "n-gram": NGram,
}


def _fresh(ranking: Ids, step: Step) -> Ids:
    """Less what the session has asked, and what must not come again."""
    kept: Ids = ranking[~np.isin(ranking, [*step.history, *step.hidden])]
    return kept
