"""The stream's recommenders that learn from earlier sessions: honest rivals of the bandits."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.memory import SessionMemory
from nextquery.replay.sessions import Ids

Floats = NDArray[np.float64]


class Step(NamedTuple):
    """One step of the stream: the query now running, and what came before it in its session.

    `before` is the position in the log up to which everything may be known: the session's start.
    `arms` and `similarities` are the candidates selected for this step, best first; `open_arms`
    says which arms may be recommended at all (a mask over the pool).
    """

    number: int
    before: int
    history: list[int]
    following: int
    arms: Ids
    similarities: Floats
    open_arms: NDArray[np.bool_]

    @property
    def now(self) -> int:
        """The query now running."""
        return self.history[-1]


class Ranker(ABC):
    """Recommends up to m queries for a step, best first, and may learn from what came next."""

    @abstractmethod
    def rank(self, step: Step, m: int) -> Ids:
        """The recommended arms, best first."""

    def learn(self, step: Step, shown: Ids) -> None:
        """See what came next; what only counts earlier sessions has nothing to do."""
        return


class Popularity(Ranker):
    """The queries asked most often so far, whatever is running now."""

    def __init__(self, memory: SessionMemory) -> None:
        self.memory = memory
        self._before, self._ranking = -1, np.empty(0, np.int64)

    def rank(self, step: Step, m: int) -> Ids:
        """The most frequent arms that the session has not seen."""
        if step.before != self._before:
            counts = self.memory.counts(step.before)
            few = min(m + 64, len(counts))  # no session of the log is longer than this allows for
            top = np.argpartition(-counts, few - 1)[:few]
            top = top[counts[top] > 0]
            self._before, self._ranking = step.before, top[np.lexsort((top, -counts[top]))]
        return _allowed(self._ranking, step)[:m]


class SimilarityAndSupport(Ranker):
    """Similar queries that many have asked (after Baeza-Yates, Hurtado and Mendoza 2004).

    score = w·similarity + (1 − w)·log(1 + support)/log(1 + the largest support among the
    candidates): how near, and how well tried.
    """

    def __init__(self, memory: SessionMemory, weight: float = 0.5) -> None:
        self.memory, self.weight = memory, weight

    def rank(self, step: Step, m: int) -> Ids:
        """The candidates by their score."""
        support = np.log1p(self.memory.support(step.arms, step.before))
        scaled = support / max(float(support.max(initial=0.0)), 1e-12)
        scores = self.weight * step.similarities + (1 - self.weight) * scaled
        return step.arms[np.lexsort((step.arms, -scores))][:m]


class NGram(Ranker):
    """What followed in earlier sessions (variable-memory N-grams, after He et al. 2009).

    The longest end of the session that was ever seen decides; where it has too few followers, the
    next shorter one fills up.
    """

    def __init__(self, memory: SessionMemory, longest: int = 3) -> None:
        self.memory, self.longest = memory, longest

    def rank(self, step: Step, m: int) -> Ids:
        """Followers of the longest memory first, each by its count."""
        ranking: dict[int, None] = {}
        for length in range(min(self.longest, len(step.history)), 0, -1):
            followers = self.memory.followers(step.history, step.before, memory=length)
            best = sorted(followers, key=lambda arm: (-followers[arm], arm))
            ranking.update(dict.fromkeys(best))
        return _allowed(np.array(list(ranking), np.int64), step)[:m]


class MostSimilarFirst(Ranker):
    """The candidates as they were selected: similarity alone."""

    def rank(self, step: Step, m: int) -> Ids:
        """The first m candidates."""
        return step.arms[:m]


def _allowed(ranking: Ids, step: Step) -> Ids:
    kept: Ids = ranking[step.open_arms[ranking] & ~np.isin(ranking, step.history)]
    return kept
