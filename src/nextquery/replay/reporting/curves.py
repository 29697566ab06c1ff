"""Curves of per-round regret, read from the result files."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.replay.results import read_rows

Floats = NDArray[np.float64]
REFERENCE = Path(__file__).with_name("reference_curves.csv")


class Curve(NamedTuple):
    """One cell of a grid, averaged over its seeds: what it is, its curve with a band, its floor."""

    selection: str
    policy: str
    reading: str
    k: str
    epsilon: float
    schedule: str
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
    """Return the curves of a run, in its order: averages over seeds."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    names = ("selection", "policy", "reading", "k", "epsilon", "schedule", "seeds")
    for row in read_rows(run / "averages.csv"):
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    curves = []
    for (selection, policy, reading, k, epsilon, schedule, seeds), rows in groups.items():
        t, regret, low, high = (
            np.array([float(row[column]) for row in rows])
            for column in ("round", "per_round_regret", "ci_low", "ci_high")
        )
        floor, anchors = float(rows[0]["floor"]), int(rows[0]["anchors"])
        described = (selection, policy, reading, k, float(epsilon), schedule, int(seeds))
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
