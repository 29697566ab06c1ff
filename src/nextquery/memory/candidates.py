"""The candidates of a session: the selected arms and those that the memory recalls."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Vectors
from nextquery.memory.features import memory_features
from nextquery.memory.memory import Memory
from nextquery.select import Candidates
from nextquery.sessions import Ids

FROM_MEMORY = 100  # the most arms that the memory adds to the selected ones


def without(candidates: Candidates, hidden: Iterable[int]) -> Candidates:
    """Return the candidates without the hidden arms."""
    return candidates.take(~np.isin(candidates.arms, _row(hidden)))


def with_memory(
    selected: Candidates,
    pool: ArmPool,
    vector: Vectors,
    memory: Memory,
    history: Sequence[int],
    *,
    running: bool = True,
    hidden: Iterable[int] = (),
    before: int | None = None,
    only: int | None = None,
) -> Candidates:
    """Return the selected and recalled arms without the hidden ones, with memory features.

    They keep their order: the selected arms by preference, then the recalled ones by weight.
    `history` contains the session's arms, with the query `running` last; these are never
    candidates. `before` is a position in the past sessions (see `Memory.recall`). `only` is an arm
    to include even if it would not be a candidate.
    """
    recalled = memory.recall(history, running=running, before=before)
    excluded = _row([*hidden, *history])
    suggested = recalled.suggested()
    fresh = suggested[~np.isin(suggested, np.concatenate([selected.arms, excluded]))]
    fresh = pool.alive(fresh)[:FROM_MEMORY]
    kept = without(selected, excluded)
    if only is not None and only not in kept.arms and only not in fresh:
        fresh = np.append(fresh, only)
    arms = np.concatenate([kept.arms, fresh])
    similarities = np.concatenate([kept.similarities, pool.score(fresh, vector)])
    support = memory.support(arms, before=before)
    return replace(
        kept,
        arms=arms,
        vectors=np.empty((len(arms), 0), np.float32),
        similarities=similarities,
        preferences=np.arange(len(arms), 0, -1).astype(np.float64),
        features=memory_features(arms, similarities, recalled, support),
    )


def _row(arms: Iterable[int]) -> Ids:
    return np.array(sorted(set(arms)), np.int64)
