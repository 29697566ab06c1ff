"""The map: the candidates of a query and the session's trail in two dimensions (Figure 1, live)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.catalogue import Place
from nextquery.service.answer.results import Considered

MOST_POINTS = 250
Floats = NDArray[np.float64]


class Sketch(NamedTuple):
    """What a map is drawn from."""

    anchor: Place
    trail: list[Place]
    considered: Considered


def draw(sketch: Sketch, rows: Callable[[Any], Any], shown: Callable[[int], str]) -> dict[str, Any]:
    """Points for the best candidates, the trail and the query now running.

    Parameters
    ----------
    sketch : what the engine gathered.
    rows : the vectors of arms.
    shown : the text of an arm as people see it.
    """
    candidates, selected, scores, version = sketch.considered
    best = np.lexsort((candidates.arms, -scores))[:MOST_POINTS]
    arms = candidates.arms[best]
    path = [*sketch.trail, sketch.anchor]
    lines = np.stack([one.vector for one in path]).astype(np.float64)
    placed, share = flat(np.concatenate([np.asarray(rows(arms), np.float64), lines]))
    known = dict(zip(selected.arms.tolist(), selected.preferences.tolist(), strict=True))
    points = [
        {
            "arm_id": int(arm),
            "text": shown(int(arm)),
            "x": float(place[0]),
            "y": float(place[1]),
            "similarity": float(candidates.similarities[at]),
            "preference": known.get(int(arm)),
            "score": float(scores[at]),
        }
        for arm, at, place in zip(arms, best, placed, strict=False)
    ]
    steps = [
        {"text": one.query, "x": float(place[0]), "y": float(place[1])}
        for one, place in zip(path, placed[len(arms) :], strict=True)
    ]
    return {
        "points": points,
        "trail": steps[:-1],
        "query": steps[-1],
        "variance": share,
        "model_version": version,
    }


def flat(vectors: Floats) -> tuple[Floats, float]:
    """Rows in the plane of their greatest variance, and the share of variance that it holds.

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
