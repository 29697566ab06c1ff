"""Differences on the same anchors, averaged over the seeds, with 95% intervals."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.replay.metrics import difference
from nextquery.replay.reporting.page import Table

Floats = NDArray[np.float64]
CHAIN = ("lin-ucb", "lin-ucb-published", "lin-ts", "most-similar", "random")
PUBLISHED = "lin-ucb-published"
_COLUMNS = [
    *("selection", "policy", "schedule", "reading", "k", "epsilon"),
    *("session", "round", "per_round_regret"),
]


class Line(NamedTuple):
    """What is compared: a policy over the candidates of a selection, fixed or growing."""

    policy: str
    selection: str = "max-utility"
    schedule: str = "none"

    def __str__(self) -> str:
        growing = "" if self.schedule == "none" else f" ({self.schedule})"
        return f"{self.policy} over {self.selection}{growing}"


CLAIMS = (  # what the paper compares beyond policies over the same candidates
    (Line("random"), Line("random", "random")),
    (Line("random"), Line("most-similar", "random")),
    (Line(PUBLISHED), Line(PUBLISHED, "random")),
    (Line(PUBLISHED), Line(PUBLISHED, "sampled")),
    (Line(PUBLISHED), Line(PUBLISHED, "threshold")),
    (Line(PUBLISHED), Line(PUBLISHED, "zooming")),
    (Line(PUBLISHED, "zooming"), Line("lin-ts")),
    (Line(PUBLISHED, schedule="bump"), Line(PUBLISHED)),
    (Line("lin-ucb", schedule="bump"), Line("lin-ucb")),
    (Line("lin-ucb-shared@features=arm,prior=none"), Line("lin-ts")),
)

Regrets = dict[tuple[Line, int], Floats]


def policies(run: Path) -> Table:
    """Return differences between policies: selection max-utility, k = 250, ε = 0.5.

    Each policy of `CHAIN` is compared with its successor, and every other policy with the published
    and the default LinUCB.
    """
    regrets = by_anchor(run)
    usual = {line.policy for line, _ in regrets if line == Line(line.policy)}
    others = sorted(usual - set(CHAIN))
    pairs = [*pairwise(CHAIN), *((name, PUBLISHED) for name in others)]
    pairs += [(name, "lin-ucb") for name in others]
    rows = [
        row for one, two in pairs for row in _rows(regrets, Line(one), Line(two), f"{one} − {two}")
    ]
    return Table(["policies", "t", "difference", "95% interval", "excludes 0"], rows)


def claims(run: Path) -> Table:
    """Return the paper's other comparisons: between selections, and fixed against growing sets.

    A selection stands for all its variants in the run, such as ``zooming@threshold=0.8``.
    """
    regrets = by_anchor(run)
    found = dict.fromkeys(line for line, _ in regrets)
    rows: list[list[str]] = []
    for one, two in CLAIMS:
        for first in (line for line in found if _plain(line) == one):
            for second in (line for line in found if _plain(line) == two):
                rows += _rows(regrets, first, second, f"{first} − {second}")
    return Table(["first − second", "t", "difference", "95% interval", "excludes 0"], rows)


def sweeps(run: Path) -> Table:
    """Return the published LinUCB with other k, and other ε in each reading, less k = 250, ε = 0.5.

    Selection max-utility, no schedule, at t = 100 and T.
    """
    last = _last_round(run)
    usual: list[Any] = [("policy", "=", PUBLISHED), ("selection", "=", "max-utility")]
    usual += [("schedule", "=", "none"), ("round", "in", [100, last])]
    found = dict(_averages(_read(run, usual), ("reading", "k", "epsilon")))
    rows: list[list[str]] = []
    for (reading, k, epsilon), t in found:
        base = (reading, 250, 0.5)
        if (base, t) in found and (reading, k, epsilon) != base:
            what = f"k = {k} − 250" if k != 250 else f"ε = {epsilon:g} − 0.5"
            gap = _difference(found[(reading, k, epsilon), t], found[base, t])
            rows.append([reading, what, str(t), *gap])
    return Table(["reading", "setting", "t", "difference", "95% interval", "excludes 0"], rows)


def by_anchor(run: Path) -> Regrets:
    """Return the per-round regret of every anchor, averaged over seeds, at t = 10, 100 and T.

    Only of the published setting: k = 250 (or the largest k run), ε = 0.5, reading example. The
    session identifies an anchor.
    """
    import pyarrow.parquet as pq

    of_k = pq.read_table(run / "anchors.parquet", columns=["k"])["k"].unique().to_pylist()
    sizes = [k for k in of_k if k is not None]
    common = 250 if 250 in sizes or not sizes else max(sizes)
    usual: list[Any] = [("reading", "=", "example"), ("epsilon", "=", 0.5)]
    usual.append(("round", "in", [10, 100, _last_round(run)]))
    table = _read(run, usual)
    table = table.filter([k is None or k == common for k in table["k"].to_pylist()])
    names = ("policy", "selection", "schedule")
    return {(Line(*key), t): regrets for (key, t), regrets in _averages(table, names)}


def _read(run: Path, filters: list[Any]) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(run / "anchors.parquet", columns=_COLUMNS, filters=filters)


def _last_round(run: Path) -> int:
    import pyarrow.parquet as pq

    rounds = pq.read_table(run / "anchors.parquet", columns=["round"])["round"].to_numpy()
    return int(np.max(rounds, initial=0))


def _averages(table: Any, names: Sequence[str]) -> Iterator[tuple[tuple[Any, int], Floats]]:
    """Yield, for every combination of these columns and every round, the averages by anchor."""
    keys = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    number = {key: at for at, key in enumerate(dict.fromkeys(keys))}
    which = np.array([number[key] for key in keys], np.int64)
    rounds, sessions = table["round"].to_numpy(), table["session"].to_numpy()
    regrets = table["per_round_regret"].to_numpy()
    for key, at in number.items():
        for t in np.unique(rounds[which == at]).tolist():
            rows = np.flatnonzero((which == at) & (rounds == t))
            _, of = np.unique(sessions[rows], return_inverse=True)
            yield (key, t), np.bincount(of, regrets[rows]) / np.bincount(of)


def _plain(line: Line) -> Line:
    return line._replace(selection=line.selection.partition("@")[0])


def _rows(regrets: Regrets, one: Line, two: Line, label: str) -> Iterator[list[str]]:
    for t in sorted(t for line, t in regrets if line == one):
        first, second = regrets[one, t], regrets.get((two, t), np.empty(0))
        if len(first) == len(second):
            yield [label, str(t), *_difference(first, second)]


def _difference(first: Floats, second: Floats) -> list[str]:
    """Return the columns of a paired difference."""
    gap = difference(first, second)
    clear = "yes" if gap.high < 0 or gap.low > 0 else "no"
    return [f"{gap.mean:+.4f}", f"[{gap.low:+.4f}, {gap.high:+.4f}]", clear]
