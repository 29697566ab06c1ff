"""Recall of the next queries of held-out sessions, the metric for early stopping."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nextquery.encode.base import Vectors
from nextquery.sessions import Ids, Sessions

_POOL = 100_000  # texts to search: enough to rank, few enough to do it every few steps
_K = 250
_BLOCK = 1 << 13
_LEVEL = np.float32(1e-6)  # similarities that differ by less are equal up to rounding


class Reads(Protocol):
    """Turns bags of tokens, or positions of texts, into unit vectors."""

    def of(self, rows: Any) -> Vectors:
        """Return one unit row each."""


class Validation:
    """recall@k: the share of sessions with a later query among the k nearest texts.

    The first query of a session is the anchor; the pool is every text (a sample in large logs)
    except the anchor. k is 250, or a fortieth of the pool if that is smaller.
    `bags` are the texts in the form that the tested encoder reads, one row each.

    >>> from nextquery.encode.tokens import pretrained
    >>> from nextquery.encode.table import TokenTable
    >>> tokens, vectors = pretrained()
    >>> bags = tokens.bags(["cats", "kittens"] + [f"tax form {i}" for i in range(60)])
    >>> check = Validation(bags, Sessions.of([[0, 1]]), np.random.default_rng(0))
    >>> check.recall(TokenTable(tokens, vectors))
    1.0
    """

    def __init__(
        self,
        bags: Any,
        sessions: Sessions,
        rng: np.random.Generator,
        *,
        at_most: int = _POOL,
    ) -> None:
        self._anchors = sessions.arms[sessions.offsets[:-1]]
        later = np.ones(len(sessions.arms), bool)
        later[sessions.offsets[:-1]] = False
        self._later = sessions.arms[later]
        self._starts = sessions.offsets[:-1] - np.arange(sessions.size)
        self._whose = np.repeat(np.arange(sessions.size), sessions.lengths - 1)
        first = np.arange(sessions.size)
        both = np.concatenate([first, self._whose]), np.concatenate([self._anchors, self._later])
        self._own = np.unique(np.stack(both), axis=1)  # every session with each of its queries
        self._pool = _sample(bags.shape[0], sessions.arms, rng, at_most)
        self._bags = bags
        self.k = min(_K, max(1, len(self._pool) // 40))

    def recall(self, table: Reads) -> float:
        """Return recall@k with the vectors of `table`."""
        return float((self.ranks(table) < self.k).mean())

    def ranks(self, table: Reads) -> NDArray[np.int64]:
        """Return how many texts are nearer to each anchor than the nearest of its later queries.

        Half of the equally near texts count as nearer, so an encoder with equal vectors has no
        recall. The session's own queries do not count.
        """
        anchors = table.of(self._bags[self._anchors])
        targets = table.of(self._bags[self._later])
        near = np.einsum("ij,ij->i", targets, anchors[self._whose])
        best = np.maximum.reduceat(near, self._starts)
        nearer, level = np.zeros((2, len(anchors)), np.int64)
        for at in range(0, len(self._pool), _BLOCK):
            rows = table.of(self._bags[self._pool[at : at + _BLOCK]])
            above = (anchors @ rows.T) - best[:, None]
            nearer += np.count_nonzero(above > _LEVEL, axis=1)
            level += np.count_nonzero(np.abs(above) <= _LEVEL, axis=1)
        whose, own = self._own
        above = np.einsum("ij,ij->i", table.of(self._bags[own]), anchors[whose]) - best[whose]
        nearer -= np.bincount(whose[above > _LEVEL], minlength=len(anchors))
        level -= np.bincount(whose[np.abs(above) <= _LEVEL], minlength=len(anchors))
        ranks: NDArray[np.int64] = np.maximum(nearer + level // 2, 0)
        # Without a vector, or with one that contains NaN, nothing is near.
        ranks[~anchors.any(axis=1) | ~np.isfinite(best)] = len(self._pool)
        return ranks


def _sample(texts: int, always: Ids, rng: np.random.Generator, at_most: int) -> Ids:
    if texts <= at_most:
        return np.arange(texts)
    return np.union1d(always, rng.choice(texts, at_most, replace=False))
