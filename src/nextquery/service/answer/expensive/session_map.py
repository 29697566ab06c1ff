"""The map: candidates and the session's earlier queries in two dimensions (Figure 1, live)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nextquery.service.answer.results import MapData
from nextquery.service.log.events import MEMORY, SELECTION

MOST_POINTS = 250
Floats = NDArray[np.float64]
Rows = Callable[[NDArray[np.int64]], NDArray[np.float32]]


def draw(data: MapData, rows: Rows, shown: Callable[[int], str]) -> dict[str, object]:
    """Return points for the best candidates, the earlier queries and the current query.

    Parameters
    ----------
    data : what `Engine.submit_map` returns.
    rows : returns the vectors of arms.
    shown : returns the text of an arm as people see it.
    """
    candidates, selected, scores, version = data.considered
    best = np.lexsort((candidates.arms, -scores))[:MOST_POINTS]
    arms = candidates.arms[best]
    path = [*data.trail, data.anchor]
    path_rows = np.stack([place.vector for place in path]).astype(np.float64)
    placed, share = flat(np.concatenate([np.asarray(rows(arms), np.float64), path_rows]))
    known = dict(zip(selected.arms.tolist(), selected.preferences.tolist(), strict=True))
    points = [
        {
            "arm_id": int(arm),
            "text": shown(int(arm)),
            "x": float(point[0]),
            "y": float(point[1]),
            "similarity": float(candidates.similarities[at]),
            "source": SELECTION if int(arm) in known else MEMORY,
            "preference": known.get(int(arm)),
            "score": float(scores[at]),
        }
        for arm, at, point in zip(arms, best, placed, strict=False)
    ]
    steps = [
        {"text": place.query, "x": float(point[0]), "y": float(point[1])}
        for place, point in zip(path, placed[len(arms) :], strict=True)
    ]
    return {
        "points": points,
        "trail": steps[:-1],
        "query": steps[-1],
        "variance": share,
        "model_version": version,
    }


def flat(vectors: Floats) -> tuple[Floats, float]:
    """Project rows onto their plane of greatest variance; also return its share of the variance.

    The sign of each axis is fixed (its largest entry is positive), so that the same rows always
    give the same picture.

    >>> placed, share = flat(np.array([[1.0, 0, 0], [3.0, 0, 0], [2.0, 0, 0]]))
    >>> placed[:, 0].tolist(), share
    ([-1.0, 1.0, 0.0], 1.0)
    """
    centred = vectors - vectors.mean(axis=0)
    spread = np.einsum(
        "ij,ik->jk", centred, centred
    )  # not by BLAS: its threads wait for each other
    widths, columns = np.linalg.eigh(spread)
    axes = columns[:, ::-1][:, :2].T
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    placed = np.zeros((len(vectors), 2))
    placed[:, : len(axes)] = centred @ axes.T
    whole = widths.sum()
    return placed, float(widths[-2:].sum() / whole) if whole > 0 else 1.0
