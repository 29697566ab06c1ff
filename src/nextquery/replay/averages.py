"""Averages over seeds: what the figures and tables of a run show.

Every seed plays the same anchors, so an anchor is averaged over its seeds first, and then anchors
are resampled. An anchor's draws do not depend on another anchor's, so the spread between anchors
contains the luck of the draws: the interval covers both the anchors and the seeds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nextquery.replay.anchored.protocol import Finished
from nextquery.replay.cells import Cell
from nextquery.replay.metrics import bands
from nextquery.replay.results import COLUMNS, described

AVERAGES = ["seeds" if name == "seed" else name for name in COLUMNS]
CANDIDATES = ["selection", "reading", "k", "epsilon", "seeds", "arms", "floor", "anchors"]


def average_rows(results: Sequence[Finished], encoder: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``averages.csv``: those of ``results.csv``, averaged over the seeds."""
    for group in _by_seed(results):
        first = group[0]
        regrets = np.mean([result.regrets for result in group], axis=0)
        mean, low, high = bands(regrets / first.recorded, first.cell.setting.anchor_seed)
        fields = described(first, encoder)
        del fields["seed"]
        for at, t in enumerate(first.recorded.tolist()):
            yield {
                **fields,
                "seeds": len(group),
                "round": t,
                "regret": float(regrets[:, at].mean()),
                "per_round_regret": float(mean[at]),
                "ci_low": float(low[at]),
                "ci_high": float(high[at]),
                "floor": 1.0 - float(np.mean([result.covered for result in group])),
                "anchors": len(regrets),
            }


def candidate_rows(results: Sequence[Finished]) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``candidates.csv``: how many arms every selection takes, and the floor."""
    done = set()
    for group in _by_seed(results):
        cell = group[0].cell
        setting = cell.setting._replace(seed=0)
        if cell.schedule != "none" or setting in done:
            continue
        done.add(setting)
        yield {
            "selection": setting.selection,
            "reading": setting.reading,
            "k": setting.k,
            "epsilon": f"{setting.epsilon:g}",
            "seeds": len(group),
            "arms": float(np.mean([result.sizes for result in group])),
            "floor": 1.0 - float(np.mean([result.covered for result in group])),
            "anchors": len(group[0].sizes),
        }


def _by_seed(results: Sequence[Finished]) -> list[list[Finished]]:
    """Return the results of cells that differ only in their seed together, in order."""
    groups: dict[Cell, list[Finished]] = {}
    for result in results:
        cell = result.cell
        same = cell._replace(setting=cell.setting._replace(seed=0))
        groups.setdefault(same, []).append(result)
    return list(groups.values())
