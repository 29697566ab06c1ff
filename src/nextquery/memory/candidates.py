"""The candidates of a session: the selected arms and those that the memories recall."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Vectors
from nextquery.arms.pool import among
from nextquery.memory.features import Evidence, memory_features
from nextquery.memory.memory import NOW, Memory, Moment
from nextquery.memory.own_recall import NOTHING, Own
from nextquery.selection import Candidates
from nextquery.sessions import Floats, Ids

FROM_MEMORY = 100  # the most arms that the memory of sessions adds to the selected ones


def without(candidates: Candidates, hidden: Iterable[int]) -> Candidates:
    """Return the candidates without the hidden arms."""
    gone = among(candidates.arms, _row(hidden))
    return candidates.take(~gone) if gone.any() else candidates


def with_memory(
    selected: Candidates,
    pool: ArmPool,
    vector: Vectors,
    memory: Memory,
    history: Sequence[int],
    *,
    running: bool = True,
    hidden: Iterable[int] = (),
    returns: Iterable[int] = (),
    own: Own = NOTHING,
    at: Moment = NOW,
) -> Candidates:
    """Return the selected and recalled arms without the hidden ones, with memory features.

    They keep their order: the selected arms by preference, then those of earlier sessions by
    weight, then the session's own `returns`, then the person's `own`. `history` contains the
    session's arms, with the query `running` last.
    """
    recalled = memory.recall(history, running=running, at=at)
    excluded = _row(hidden)
    kept, taken = without(selected, excluded), [excluded, selected.arms]

    def fresh(arms: Ids, most: int) -> Ids:
        if not len(arms):
            return arms
        new = arms[~among(arms, np.concatenate(taken))]
        new = np.concatenate([pool.alive(new[new >= 0]), new[new < 0]])[:most]
        taken.append(new)
        return new

    added = [
        fresh(recalled.suggested(), FROM_MEMORY),
        fresh(_row(returns), len(history)),
        fresh(own.ids, len(own.ids)),
    ]
    joined = np.concatenate(added)
    arms, similarities = kept.arms, kept.similarities
    if len(joined):
        scores = np.empty(len(joined))
        scores[joined >= 0] = pool.score(joined[joined >= 0], vector)
        scores[joined < 0] = _own_scores(joined[joined < 0], own, vector)
        arms, similarities = np.append(arms, joined), np.append(similarities, scores)
    evidence = Evidence(recalled, memory.support(arms, at=at), _row(returns), own)
    return replace(
        kept,
        arms=arms,
        vectors=np.empty((len(arms), 0), np.float32),
        similarities=similarities,
        preferences=np.arange(len(arms), 0, -1).astype(np.float64),
        features=memory_features(arms, similarities, evidence),
        own_texts=own.texts,
        own_asked=own.asked,
        recalled=frozenset(joined.tolist()),
    )


def _own_scores(ids: Ids, own: Own, vector: Vectors) -> Floats:
    """Return the similarities of queries that only their owner asked."""
    if not len(ids):
        return np.empty(0)
    place = {id: number for number, id in enumerate(own.texts)}
    rows = np.stack([own.vectors[place[id]] for id in ids.tolist()])
    return rows.astype(np.float64) @ np.asarray(vector, np.float64)


def _row(arms: Iterable[int]) -> Ids:
    return np.unique(arms if isinstance(arms, np.ndarray) else np.array(list(arms), np.int64))
