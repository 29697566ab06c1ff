"""The tables, each made from result files alone."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.replay.metrics import difference
from nextquery.replay.reporting.curves import Curve
from nextquery.replay.reporting.page import Table
from nextquery.replay.results import read_rows

Floats = NDArray[np.float64]
PAPER_TABLE_1 = {"0.25": 1_116_801, "0.4": 949_365, "0.5": 523_750, "0.6": 161_529}
PAPER_TABLE_2 = {"queries": "1,120,461", "sessions": "159,237", "queries per session": "7"}
CHAIN = ("lin-ucb", "lin-ucb-published", "lin-ts", "most-similar", "random")


def table_1(run: Path) -> Table:
    """Return the arms above each similarity threshold, averaged over anchors."""
    rows = []
    for row in read_rows(run / "similar_arms.csv"):
        paper = PAPER_TABLE_1.get(row["threshold"])
        published = "" if paper is None else f"{paper:,}"
        rows.append([row["threshold"], f"{float(row['arms']):,.1f}", published])
    return Table(["similarity at least", "arms", "the paper's log"], rows)


def table_2(data: dict[str, Any]) -> Table:
    """Return the figures of the data set."""
    ours = {
        "distinct queries (arms)": f"{data['arms']:,}",
        "queries": f"{data['queries']:,}",
        "sessions": f"{data['sessions']:,}",
        "queries per session": f"{data['queries_per_session']:.1f}",
        "dimensions of a vector": str(data["dim"]),
    }
    rows = [[name, value, PAPER_TABLE_2.get(name, "")] for name, value in ours.items()]
    return Table(["", "this run", "the paper"], rows)


def examples(run: Path, shown: int = 3) -> Table:
    """Return the queries of a few sessions."""
    rows = read_rows(run / "sessions.csv")
    names = list(dict.fromkeys(row["session"] for row in rows))[:shown]
    cells = [
        [row["session"], row["position"], row["query"]] for row in rows if row["session"] in names
    ]
    return Table(["session", "position", "query"], cells)


def final_regrets(curves: Sequence[Curve]) -> Table:
    """Return every curve's end: R(T)/T with its interval, the floor, and the cost of search."""
    rows = []
    for c in curves:
        early = [f"{_at(c, t):.3f}" if t <= c.rounds[-1] else "" for t in (10, 100)]
        rows.append(
            [
                *(c.selection, c.policy, c.reading, c.k, f"{c.epsilon:g}", c.schedule, c.seed),
                *early,
                f"{c.last:.3f} [{c.low[-1]:.3f}, {c.high[-1]:.3f}]",
                f"{c.floor:.3f}",
                "" if np.isnan(c.search_cost) else f"{c.search_cost:.3f}",
            ]
        )
    header = ["selection", "policy", "reading", "k", "ε", "schedule", "seed", "t = 10", "t = 100"]
    return Table([*header, "t = T [95%]", "floor", "cost of search"], rows)


def paired(run: Path) -> Table:
    """Return differences on the same anchors: selection max-utility, k = 250, ε = 0.5.

    Each policy of `CHAIN` is compared with its successor, and every other policy with the published
    and the default LinUCB.
    """
    regrets = _by_anchor(run)
    others = [name for name, _ in regrets if name not in CHAIN]
    pairs = [*pairwise(CHAIN)]
    pairs += [(name, "lin-ucb-published") for name in dict.fromkeys(others)]
    pairs += [(name, "lin-ucb") for name in dict.fromkeys(others)]
    rows = []
    for policy, other in pairs:
        for t in sorted({t for name, t in regrets if name == policy}):
            if (other, t) in regrets:
                gap = difference(regrets[policy, t], regrets[other, t])
                clear = "yes" if gap.high < 0 or gap.low > 0 else "no"
                interval = f"[{gap.low:+.4f}, {gap.high:+.4f}]"
                rows.append([f"{policy} − {other}", str(t), f"{gap.mean:+.4f}", interval, clear])
    return Table(["policies", "t", "difference", "95% interval", "excludes 0"], rows)


def _at(curve: Curve, t: int) -> float:
    return float(curve.regret[np.searchsorted(curve.rounds, t)])


def _by_anchor(run: Path) -> dict[tuple[str, int], Floats]:
    """Return the per-round regret of every anchor in the default setting, by policy and round."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(run / "anchors.parquet")
    usual = {"selection": "max-utility", "reading": "example", "schedule": "none", "epsilon": 0.5}
    for name, value in usual.items():
        table = table.filter(pc.equal(table[name], value))
    if len(table):
        table = table.filter(pc.equal(table["seed"], pc.min(table["seed"])))
        sizes = pc.unique(table["k"]).to_pylist()
        common = 250 if 250 in sizes else max(sizes)
        table = table.filter(pc.equal(table["k"], common))
    return dict(_groups(table))


def _groups(table: Any) -> Iterator[tuple[tuple[str, int], Floats]]:
    policies = np.array(table["policy"].to_pylist(), dtype=object)
    rounds, anchors = table["round"].to_numpy(), table["anchor"].to_numpy()
    regrets = table["per_round_regret"].to_numpy()
    last = int(rounds.max()) if len(rounds) else 0
    for policy in dict.fromkeys(policies.tolist()):
        for t in sorted({10, 100, last} & set(rounds.tolist())):
            rows = np.flatnonzero((policies == policy) & (rounds == t))
            yield (policy, t), regrets[rows[np.argsort(anchors[rows], kind="stable")]]
