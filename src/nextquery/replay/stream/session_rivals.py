"""The stream's rivals: recommenders that count earlier sessions and do not learn from outcomes."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from nextquery.memory import SessionMemory
from nextquery.select.base import Candidates
from nextquery.sessions import Ids

_HIDDEN = 300  # more than a session remembers of its queries and of what it was shown
_PLACES = 10_000  # newest occurrences of a query that an n-gram considers


class Step(NamedTuple):
    """One step of the stream: the session up to the current query, and the candidates for it.

    `before` is the position in the log where the session starts: only earlier rows are known.
    `hidden` are arms that must not be recommended again, because the session was shown them.
    """

    before: int
    history: list[int]
    selected: Candidates
    hidden: Collection[int] = ()


class Rival(ABC):
    """Recommends up to m queries for a step, best first, from earlier sessions."""

    def __init__(self, memory: SessionMemory) -> None:
        self.memory = memory

    @abstractmethod
    def rank(self, step: Step, m: int) -> Ids:
        """Return the recommended arms, best first."""


class Popularity(Rival):
    """The most frequent queries so far, whatever the current query is."""

    def __init__(self, memory: SessionMemory) -> None:
        super().__init__(memory)
        self._before, self._counts = 0, np.zeros(memory.arms, np.int64)
        self._ranking = np.empty(0, np.int64)

    def rank(self, step: Step, m: int) -> Ids:
        """Return the most frequent arms that the session has not seen."""
        if step.before != self._before:
            new = self.memory.sessions.arms[self._before : step.before]
            self._counts += np.bincount(new, minlength=self.memory.arms)
            count = min(m + _HIDDEN, len(self._counts))
            top = np.argpartition(-self._counts, count - 1)[:count]
            top = top[self._counts[top] > 0]
            self._before = step.before
            self._ranking = top[np.lexsort((top, -self._counts[top]))]
        return _fresh(self._ranking, step)[:m]


class SimilarityAndSupport(Rival):
    """Similar and frequent queries (after Baeza-Yates, Hurtado and Mendoza 2004).

    score = ½·similarity + ½·log(1 + support)/log(1 + the largest support among the candidates).
    """

    def rank(self, step: Step, m: int) -> Ids:
        """Return the candidates, best score first."""
        arms = step.selected.arms
        support = np.log1p(self.memory.support(arms, step.before))
        scaled = support / max(float(support.max(initial=0.0)), 1e-12)
        scores = 0.5 * step.selected.similarities + 0.5 * scaled
        return _fresh(arms[np.lexsort((arms, -scores))], step)[:m]


class NGram(Rival):
    """Queries that followed in earlier sessions (variable-memory N-grams, after He et al. 2009).

    The longest suffix of the session that occurred before decides. If it has too few followers,
    shorter suffixes fill the list.
    """

    longest = 3

    def rank(self, step: Step, m: int) -> Ids:
        """Return the followers of the longest suffix first, each suffix's by count."""
        ranking: dict[int, None] = {}
        for length in range(min(self.longest, len(step.history)), 0, -1):
            followed = self.memory.followers(step.history, step.before, length=length, most=_PLACES)
            arms, counts = np.unique(followed, return_counts=True)
            ranking.update(dict.fromkeys(arms[np.lexsort((arms, -counts))].tolist()))
        return _fresh(np.array(list(ranking), np.int64), step)[:m]


RIVALS: dict[str, type[Rival]] = {
    "popularity": Popularity,
    "similarity-support": SimilarityAndSupport,
    "n-gram": NGram,
}


def _fresh(ranking: Ids, step: Step) -> Ids:
    """Drop the session's own queries and the hidden arms."""
    kept: Ids = ranking[~np.isin(ranking, [*step.history, *step.hidden])]
    return kept
