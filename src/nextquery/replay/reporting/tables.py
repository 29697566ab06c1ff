"""The tables, each made from result files alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nextquery.replay.reporting.curves import Curve
from nextquery.replay.reporting.page import Table
from nextquery.replay.results import read_rows

PAPER_TABLE_1 = {"0.25": 1_116_801, "0.4": 949_365, "0.5": 523_750, "0.6": 161_529}
ORDERS = {  # what the paper says of each policy's per-round regret: as text, and the power of d
    "lin-ucb-published": ("d/√T", 1),
    "lin-ucb-shared@features=arm,prior=none": ("d/√T", 1),
    "lin-ts": ("d²/√T", 2),
}
PAPER_TABLE_2 = {"queries": "1,120,461", "sessions": "159,237", "queries per session": "7"}


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
                *(
                    c.selection,
                    c.policy,
                    c.reading,
                    c.k,
                    f"{c.epsilon:g}",
                    c.schedule,
                    str(c.seeds),
                ),
                *early,
                f"{c.last:.3f} [{c.low[-1]:.3f}, {c.high[-1]:.3f}]",
                f"{c.floor:.3f}",
                "" if np.isnan(c.search_cost) else f"{c.search_cost:.3f}",
            ]
        )
    header = ["selection", "policy", "reading", "k", "ε", "schedule", "seeds", "t = 10", "t = 100"]
    return Table([*header, "t = T [95%]", "floor", "cost of search"], rows)


def candidate_sets(run: Path) -> Table:
    """Return the mean number of candidates of every selection, and the share without an answer."""
    names = ("selection", "reading", "k", "epsilon")
    rows = [
        [*(row[name] for name in names), f"{float(row['arms']):,.1f}", f"{float(row['floor']):.3f}"]
        for row in read_rows(run / "candidates.csv")
    ]
    return Table(["selection", "reading", "k", "ε", "candidates", "floor"], rows)


def rates(curves: Sequence[Curve], dim: int) -> Table:
    """Return how fast R(t)/t comes down to its floor, beside the orders that the paper quotes.

    The exponent is the slope of log(R(t)/t − floor) over log t, for t from T/4 to T: −½ for a
    regret of the order √T, −1 for a policy that no longer errs.
    """
    rows = []
    for policy, (order, power) in ORDERS.items():
        usual = [c for c in curves if c.policy == policy and _is_usual(c)]
        for c in usual[:1]:
            late = (c.rounds >= c.rounds[-1] / 4) & (c.regret > c.floor)
            slope = (
                f"{np.polyfit(np.log(c.rounds[late]), np.log(c.regret[late] - c.floor), 1)[0]:+.2f}"
                if np.count_nonzero(late) > 1
                else ""
            )
            bound = f"{order} = {dim**power / np.sqrt(c.rounds[-1]):,.1f}"
            rows.append([policy, bound, f"{c.last:.3f}", f"{c.last - c.floor:.3f}", slope])
    header = ["policy", "the quoted order at t = T", "R(T)/T", "above the floor", "exponent in t"]
    return Table(header, rows)


def _is_usual(c: Curve) -> bool:
    """Whether a curve is of the published setting: max-utility, k = 250, ε = 0.5."""
    plain = c.selection == "max-utility" and c.reading == "example" and c.schedule == "none"
    return plain and c.k == "250" and c.epsilon == 0.5


def _at(curve: Curve, t: int) -> float:
    return float(curve.regret[np.searchsorted(curve.rounds, t)])
