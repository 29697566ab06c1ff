"""The candidate sets of all anchors, selected once and shared by every policy."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.arms.pool import ArmPool
from nextquery.replay.seeds import generator
from nextquery.replay.sessions import Anchors, Ids
from nextquery.selection import Candidates, Selector
from nextquery.sessions import Sessions

_BATCH = 128  # anchors selected at once; fixed, because every batch has its own generator
_WIDE_BATCH = 8  # the same for thresholds, which may select half the pool with its vectors


class CandidateSets(NamedTuple):
    """Set i is ``arms[offsets[i]:offsets[i + 1]]``, best first by (−preference, id).

    `targets` marks the arms that earn a reward when recommended.
    """

    arms: Ids
    offsets: Ids
    targets: NDArray[np.bool_]

    def covered(self, at_most: int | None = None) -> NDArray[np.bool_]:
        """Which anchors have a target (among their first `at_most` arms).

        The others cost 1 in every round.
        """
        sizes = np.diff(self.offsets)
        index = np.arange(len(self.arms)) - np.repeat(self.offsets[:-1], sizes)
        within = self.targets if at_most is None else self.targets & (index < at_most)
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(within)])
        return np.diff(counts[self.offsets]) > 0

    def floor(self) -> float:
        """1 − coverage: the lowest per-round regret that any policy can reach."""
        return 1.0 - float(np.mean(self.covered()))


def select_sets(
    pool: ArmPool, sessions: Sessions, anchors: Anchors, selector: Selector, seed: int
) -> CandidateSets:
    """Select the candidate set of every anchor, without its own arm, in batches over the pool.

    >>> from nextquery import MaxUtility
    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [3, 1], [0, 1]])
    >>> past = Sessions(np.array([0, 1]), np.array([0, 2]), np.zeros(1))
    >>> anchors = Anchors(np.array([0]), np.array([0]))
    >>> sets = select_sets(pool, past, anchors, MaxUtility(k=2), seed=0)
    >>> sets.arms.tolist(), sets.targets.tolist(), sets.floor()
    ([1, 2], [True, False], 0.0)
    """
    batch = _BATCH if selector.k is not None else _WIDE_BATCH
    chosen: list[Ids] = []
    for start in range(0, len(anchors.arms), batch):
        own = anchors.arms[start : start + batch]
        rng = generator(seed, "selection", start)
        batches = selector.select_many(pool, pool.rows(own), list(own[:, None]), rng)
        chosen += [_arms_of(candidates) for candidates in batches]
    sizes = [len(arms) for arms in chosen]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    arms = np.concatenate([np.empty(0, np.int64), *chosen])
    targets = [
        np.isin(arms_of_anchor, sessions.of_number(session))
        for arms_of_anchor, session in zip(chosen, anchors.sessions.tolist(), strict=True)
    ]
    return CandidateSets(arms, offsets, np.concatenate([np.empty(0, np.bool_), *targets]))


def _arms_of(candidates: Candidates) -> Ids:
    """Copy only the arms; the vectors of a wide set are looked up when they are needed."""
    return candidates.arms.copy()
