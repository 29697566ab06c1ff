"""Describe the data for the report: arms above thresholds (Table 2), and example sessions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nextquery.arms.pool import ArmPool
from nextquery.replay.results import write_rows
from nextquery.replay.seeds import generator
from nextquery.replay.sessions import Ids, draw_anchors
from nextquery.replay.work import Work
from nextquery.segments import text_of
from nextquery.sessions import Sessions

THRESHOLDS = (0.25, 0.4, 0.5, 0.6)
_SHOWN = 5  # sessions in Figure 1
_BLOCK = 8192


def describe(work: Work, *, anchors: int, seed: int, held_out: int = 0) -> None:
    """Write ``similar_arms.csv`` (Table 2) and ``sessions.csv`` (Figure 1, examples)."""
    drawn = draw_anchors(work.sessions, anchors, seed, held_out)
    with threadpool_limits(1):
        counts = arms_above(work.pool, drawn.arms)
    rows = [
        {"threshold": f"{threshold:g}", "arms": float(count), "anchors": len(drawn.arms)}
        for threshold, count in zip(THRESHOLDS, counts.mean(axis=0), strict=True)
    ]
    write_rows(work.out / "similar_arms.csv", ("threshold", "arms", "anchors"), rows)
    names = ("session", "position", "x", "y", "query")
    write_rows(work.out / "sessions.csv", names, _examples(work, seed))


def arms_above(pool: ArmPool, anchors: Ids) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Count, for each anchor, the other arms at or above each similarity threshold.

    >>> pool = ArmPool.from_vectors(["a", "b", "c"], [[1, 0], [1, 1], [0, 1]])
    >>> arms_above(pool, np.array([0])).tolist()
    [[1, 1, 1, 1]]
    """
    rows, counts = pool.rows(anchors), np.zeros((len(anchors), len(THRESHOLDS)), np.int64)
    vectors = pool.vectors
    for start in range(0, len(vectors), _BLOCK):
        products = vectors[start : start + _BLOCK] @ rows.T
        removed = pool.removed[(pool.removed >= start) & (pool.removed < start + _BLOCK)] - start
        products[removed] = -1.0
        own = np.flatnonzero((anchors >= start) & (anchors < start + _BLOCK))
        products[anchors[own] - start, own] = -1.0
        for column, threshold in enumerate(THRESHOLDS):
            counts[:, column] += np.count_nonzero(products >= threshold, axis=0)
    return counts


def _examples(work: Work, seed: int) -> Iterator[dict[str, Any]]:
    """Yield five sessions of at least four queries, projected on their two main directions."""
    chosen = _typical(work.sessions, seed)
    queries = [work.sessions.of_number(session) for session in chosen]
    vectors = work.pool.rows(np.concatenate(queries)).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ directions[:2].T
    plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    row = 0
    for number, session in enumerate(queries, start=1):
        for position, arm in enumerate(session.tolist(), start=1):
            x, y = plane[row]
            query = text_of(work.pool.texts[arm])
            yield {"session": number, "position": position, "x": x, "y": y, "query": query}
            row += 1


def _typical(sessions: Sessions, seed: int) -> list[int]:
    lengths = np.diff(sessions.offsets)
    long_enough = np.flatnonzero((lengths >= 4) & (lengths <= 20))
    if not len(long_enough):
        long_enough = np.flatnonzero(lengths)
    rng = generator(seed, "examples")
    drawn = rng.choice(long_enough, min(_SHOWN, len(long_enough)), replace=False)
    return [int(session) for session in drawn]
