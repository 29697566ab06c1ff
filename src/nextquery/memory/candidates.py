"""What may be recommended in a session: the selected arms and those that the memory recalls."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Vectors
from nextquery.memory.features import memory_features
from nextquery.memory.memory import Memory
from nextquery.select import Candidates
from nextquery.sessions import Ids

FROM_MEMORY = 100  # arms that the memory may add to the selected ones


def without(candidates: Candidates, hidden: Iterable[int]) -> Candidates:
    """The candidates less the hidden arms."""
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
    """The selected arms and the recalled ones, less the hidden, with what the memory says of each.

    They keep their order: the selected by preference, then the recalled by weight. `history` is
    the session's arms, the query `running` last; these are never candidates. `before` is a place
    in the past to look from (see `Memory.recall`). `only` asks for one arm's row, whether it would
    be a candidate or not.
    """
    recalled = memory.recall(history, running=running, before=before)
    away = _row([*hidden, *history])
    suggested = recalled.suggested()
    fresh = suggested[~np.isin(suggested, np.concatenate([selected.arms, away]))]
    fresh = pool.alive(fresh)[:FROM_MEMORY]
    kept = without(selected, away)
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
