"""Curves of per-round regret, read from the result files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.replay.results import read_rows

Floats = NDArray[np.float64]
REFERENCE = Path(__file__).with_name("reference_curves.csv")


class Curve(NamedTuple):
    """One cell of a grid: its description, its curve with the band, and its floor.

    `seed` is empty if the curve is an average over `seeds`.
    """

    selection: str
    policy: str
    reading: str
    k: str
    epsilon: float
    schedule: str
    seed: str
    seeds: int
    rounds: Floats
    regret: Floats
    low: Floats
    high: Floats
    floor: float
    anchors: int

    @property
    def last(self) -> float:
        """R(T)/T."""
        return float(self.regret[-1])

    @property
    def search_cost(self) -> float:
        """(R(T)/T − floor)/(1 − floor): the share of reachable reward that was lost."""
        return (self.last - self.floor) / (1 - self.floor) if self.floor < 1 else float("nan")


def read_curves(run: Path) -> list[Curve]:
    """Return the curves of a run, in its order: averages over seeds; of older runs, every seed."""
    averaged = run / "averages.csv"
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    names = ("selection", "policy", "reading", "k", "epsilon", "schedule")
    for row in read_rows(averaged if averaged.exists() else run / "results.csv"):
        key = (*(row[name] for name in names), row.get("seed", ""), row.get("seeds", "1"))
        groups.setdefault(key, []).append(row)
    curves = []
    for (selection, policy, reading, k, epsilon, schedule, seed, seeds), rows in groups.items():
        t, regret, low, high = (
            np.array([float(row[column]) for row in rows])
            for column in ("round", "per_round_regret", "ci_low", "ci_high")
        )
        floor, anchors = float(rows[0]["floor"]), int(rows[0]["anchors"])
        described = (selection, policy, reading, k, float(epsilon), schedule, seed, int(seeds))
        curves.append(Curve(*described, t, regret, low, high, floor, anchors))
    return curves


def reference(figure: str) -> dict[str, tuple[Floats, Floats]]:
    """Return the paper's own curves of a figure: rounds and per-round regret by series.

    >>> float(reference("fig2_algorithms")["lin_ucb"][1][-1])
    0.344
    """
    series: dict[str, list[tuple[float, float]]] = {}
    for row in read_rows(REFERENCE):
        if row["figure"] == figure:
            point = (float(row["round"]), float(row["per_round_regret"]))
            series.setdefault(row["series"], []).append(point)
    return {
        name: (np.array([t for t, _ in points]), np.array([r for _, r in points]))
        for name, points in series.items()
    }


def pick(curves: Sequence[Curve], accept: Callable[[Curve], bool]) -> list[Curve]:
    """Return the accepted curves; of older runs, those of the smallest seed."""
    accepted = [curve for curve in curves if accept(curve)]
    first = min((int(curve.seed or 0) for curve in accepted), default=0)
    return [curve for curve in accepted if int(curve.seed or 0) == first]
