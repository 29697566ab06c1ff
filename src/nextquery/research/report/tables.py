"""The tables of a report, each made from result files alone.

- Differences are on the same anchors, averaged over the seeds, with 95% intervals.
- The stream has its table, a note on its candidates, and paired differences.
- The prefetch view compares next queries foreseen with queries wasted, as figure and table.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.memory import KINDS
from nextquery.research.replay.metrics import (
    SIZES,
    Flags,
    Forecasts,
    Prefetched,
    bands,
    best_at_waste,
    counted,
    difference,
    first_m,
)
from nextquery.research.replay.results import read_rows, read_run
from nextquery.research.report import figures
from nextquery.research.report.figures import Curve, ReportTable
from nextquery.sessions import Ids

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


def policies(run: Path) -> ReportTable:
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
    return ReportTable(["policies", "t", "difference", "95% interval", "excludes 0"], rows)


def claims(run: Path) -> ReportTable:
    """Return the paper's other comparisons: between selections, and fixed against growing sets.

    A selection stands for all its variants in the run, such as ``zooming@threshold=0.8``.
    """
    regrets = by_anchor(run)
    found = dict.fromkeys(line for line, _ in regrets)
    rows: list[list[str]] = []
    for one, two in CLAIMS:
        for first in (line for line in found if _plain_line(line) == one):
            for second in (line for line in found if _plain_line(line) == two):
                rows += _rows(regrets, first, second, f"{first} − {second}")
    return ReportTable(["first − second", "t", "difference", "95% interval", "excludes 0"], rows)


def sweeps(run: Path) -> ReportTable:
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
    return ReportTable(
        ["reading", "setting", "t", "difference", "95% interval", "excludes 0"], rows
    )


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


def _plain_line(line: Line) -> Line:
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


OURS = "lin-ucb-memory"
_VARIANTS = {
    "@learning=off": ", frozen",
    "@weights=off": ", fixed weights",
    "@personal=off": ", nobody's own past",
}


def stream_table(run: Path) -> ReportTable:
    """Return hits, reciprocal rank and regret of every recommender over the whole stream."""
    rows = []
    for name, own in _last(run).items():
        by_m = {row["m"]: row for row in own}
        hits = [f"{float(by_m[m]['hit_at_m']):.3f}" for m in ("1", "5", "10") if m in by_m]
        any_row = own[0]
        ends = [f"{float(any_row[column]):.3f}" for column in ("mrr", "per_round_regret")]
        rows.append([name, any_row["selection"], any_row["pool"], *hits, *ends])
    rows.sort(key=lambda row: -float(row[5]))
    header = ["policy", "selection", "pool", "hit@1", "hit@5", "hit@10", "MRR", "regret R/t"]
    return ReportTable(header, rows)


def stream_differences(run: Path) -> ReportTable:
    """Return our hit@10 minus each other's, on the same steps; people are resampled."""
    import pyarrow.parquet as pq

    table = pq.read_table(run / "stream_steps.parquet")
    names = np.array(table["policy"].to_pylist(), dtype=object)
    people, ranks = table["person"].to_numpy(), table["rank"].to_numpy()
    hits = {name: _hits(ranks[names == name]) for name in dict.fromkeys(names.tolist())}
    rows = []
    if OURS in hits:
        of_step = people[names == OURS]
        for other in hits:
            if other != OURS:
                gap, low, high = interval(hits[OURS] - hits[other], of_step)
                clear = "yes" if low > 0 or high < 0 else "no"
                rows.append([other, f"{gap:+.4f}", f"[{low:+.4f}, {high:+.4f}]", clear])
    return ReportTable([f"{OURS} less", "hit@10", "95% interval", "excludes 0"], rows)


def shown_name(name: str) -> str:
    """Return a recommender's name in words.

    >>> shown_name("lin-ucb-memory@learning=off")
    'lin-ucb-memory, frozen'
    """
    for variant, words in _VARIANTS.items():
        name = name.replace(variant, words)
    return name


def _last(run: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows at the end of the stream, by policy, in order of m."""
    rows = read_rows(run / "stream.csv")
    end = max((int(row["step"]) for row in rows), default=0)
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        if int(row["step"]) == end:
            groups.setdefault(row["policy"], []).append(row)
    return groups


def _hits(ranks: Any) -> Any:
    return ((ranks > 0) & (ranks <= 10)).astype(np.float64)


def stream_answers(run: Path) -> ReportTable:
    """Return where the answers were before, what was a candidate, and the hits by kind."""
    rows = []
    for name, own in read_run(run)["stream"]["recommenders"].items():
        hits = own["hits_at_10"]
        counts = [f"{hits[kind]:,}" if sum(hits.values()) else "" for kind in KINDS]
        rows.append([name, f"{own['coverage']:.3f}", f"{own['offered']:.1f}", *counts])
    return ReportTable(
        ["policy", "coverage", "offered", *(f"hits: {kind}" for kind in KINDS)], rows
    )


def stream_note(run: Path) -> str:
    """Return a sentence on what the stream counts."""
    summary = read_run(run)["stream"]
    answers = summary["answers"]
    unit = (
        f"{summary['people']:,} people. The recommender knows each person's own past, which in the "
        "service needs user ids that it can trust; @personal=off is without"
        if summary["personal"]
        else f"{summary['people']:,} sessions; whose they were is not known"
    )
    return (
        f"By the clock from {summary['start'][:10]}: {summary['steps']:,} steps of {unit}. "
        f"Of the next queries, {answers['own']:.1%} had been asked by the same person in other "
        f"sessions, {answers['return']:.1%} earlier in the session, {answers['others']:.1%} only "
        f"by others, and {answers['new']:.1%} by nobody: these cannot be answered. Queries that "
        "the privacy rules removed are not counted."
    )


def interval(values: Any, sessions: Any) -> tuple[float, float, float]:
    """Return the mean over steps; people are resampled, because their steps are dependent.

    The bootstrap of a ratio of sums is linearised around the mean, so it becomes one of means.
    """
    own, which = np.unique(sessions, return_inverse=True)
    mean = float(values.mean())
    sums = np.bincount(which, values - mean, minlength=len(own))
    counts = np.bincount(which, minlength=len(own))
    _, low, high = bands((sums / counts.mean())[:, None])
    return mean, mean + float(low[0]), mean + float(high[0])


_COMPARED = (1, 3, 10)  # values of m in the table
_FEWEST = 0.01  # offers per step from which on a threshold is drawn


class RecommenderSteps(NamedTuple):
    """One recommender at every step."""

    ranks: Ids
    offered: Ids
    people: Ids
    forecasts: Forecasts

    def first(self, m: int) -> Prefetched:
        """Return what fetching the first m offers gives."""
        return counted(*first_m(self.ranks, self.offered, m))

    def above(self, wasted: float) -> tuple[Flags, Prefetched]:
        """Return what the best threshold that wastes no more gives, and which steps it foresees."""
        hits, offers = self.forecasts.above(best_at_waste(self.forecasts.curve(), wasted))
        return hits, counted(hits, offers)


def read_steps(run: Path) -> dict[str, RecommenderSteps]:
    """Return the steps of every recommender."""
    import pyarrow.parquet as pq

    table = pq.read_table(run / "stream_steps.parquet")
    names = np.array(table["policy"].to_pylist(), dtype=object)
    found = {}
    for name in dict.fromkeys(names.tolist()):
        own = table.take(np.flatnonzero(names == name))
        columns = {key: own[key].to_numpy() for key in ("rank", "offered", "person")}
        lists = own["probabilities"].combine_chunks()
        sizes, ranks = np.diff(lists.offsets.to_numpy()), own["forecast_rank"].to_numpy()
        forecasts = Forecasts(lists.flatten().to_numpy(), sizes, ranks)
        found[name] = RecommenderSteps(
            columns["rank"], columns["offered"], columns["person"], forecasts
        )
    return found


def prefetch_table(run: Path) -> ReportTable | None:
    """Return what each recommender and ours foresee at the same waste; None without ours.

    The better of its two ways is compared with ours: its first m, or all above a threshold of its
    own that wastes no more. Steps are paired, and people are resampled.
    """
    steps = read_steps(run)
    if OURS not in steps:
        return None
    rows = []
    for name, own in steps.items():
        for m in _COMPARED:
            point = own.first(m)
            first, _ = first_m(own.ranks, own.offered, m)
            best, by_threshold = own.above(point.wasted)
            hits, ours = steps[OURS].above(point.wasted)
            if point.foreseen > by_threshold.foreseen or name == OURS:
                best = first
            gap, low, high = interval(hits.astype(float) - best, own.people)
            shares = (point.wasted, point.foreseen, by_threshold.foreseen, ours.foreseen)
            cells = [name, str(m), f"{point.offered:.2f}", *(f"{share:.3f}" for share in shares)]
            rows.append([*cells, f"{gap:+.4f}", f"[{low:+.4f}, {high:+.4f}]"])
    header = ["policy", "m", "offered", "wasted", "foreseen", "by its threshold"]
    header += ["ours by threshold", "ours less the better", "95% interval"]
    return ReportTable(header, rows)


def prefetch_figure(run: Path, folder: Path) -> None:
    """Draw the share foreseen against the share wasted: points for m, a line for thresholds."""
    steps = read_steps(run)
    figure, (axes,) = figures.new_figure(width=7.4, height=4.6)
    axes.grid(color="#e5e5e5", linewidth=0.6)
    others = list(dict.fromkeys(_plain_name(name) for name in steps if _plain_name(name) != OURS))
    ends = []
    for name, own in steps.items():
        colour, marker, glyph = _look(name, others)
        points = [own.first(m) for m in SIZES]
        axes.plot(
            [point.wasted for point in points],
            [point.foreseen for point in points],
            color=colour,
            linestyle="none",
            marker=marker,
            markersize=4,
            markerfacecolor="white" if "=off" in name else colour,
            markeredgewidth=0.8,
        )
        if "=off" not in name:
            _draw_curve(axes, own.forecasts, colour, 2.2 if name == OURS else 0.9)
        last = points[-1].foreseen
        ends.append((last, f"{glyph} {shown_name(name)}  {last:.3f}", colour))
        if name == OURS:
            _label_sizes(axes, points, colour)
    axes.set_xlim(right=1.0)
    axes.locator_params(axis="x", nbins=6)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("share of the queries offered that were wasted")
    axes.set_ylabel("share of next queries foreseen")
    figures.label_ends(axes, ends, gap=0.055)
    figures.save(figure, folder, "prefetch")


def _plain_name(name: str) -> str:
    return name.partition("@")[0]


def _look(name: str, others: list[str]) -> tuple[str, str, str]:
    """Return colour, marker and the same as a character; no other has the colour of ours."""
    if _plain_name(name) == OURS:
        switched = {"@learning=off": ("^", "△"), "@weights=off": ("v", "▽")}
        return figures.CYCLE[0], *switched.get(
            name.removeprefix(OURS), ("o", "○" if "=off" in name else "●")
        )
    again, colour = divmod(others.index(_plain_name(name)), len(figures.CYCLE) - 1)
    return figures.CYCLE[1 + colour], *(("o", "●") if not again else ("s", "■"))


def _draw_curve(axes: Any, forecasts: Forecasts, colour: str, width: float) -> None:
    curve = forecasts.curve()
    enough = np.flatnonzero(curve.offered >= _FEWEST)
    if len(enough):
        drawn = np.unique(np.geomspace(enough[0] + 1, len(curve.offered), 400).astype(int)) - 1
        axes.plot(curve.wasted[drawn], curve.foreseen[drawn], color=colour, linewidth=width)


def _label_sizes(axes: Any, points: list[Prefetched], colour: str) -> None:
    for m, point in zip(SIZES, points, strict=True):
        axes.annotate(
            f"m = {m}" if m == 1 else str(m),
            (point.wasted, point.foreseen),
            xytext=(-14, 4),
            textcoords="offset points",
            fontsize=7,
            ha="right",
            color=colour,
        )


PAPER_TABLE_1 = {"0.25": 1_116_801, "0.4": 949_365, "0.5": 523_750, "0.6": 161_529}
ORDERS = {  # what the paper says of each policy's per-round regret: as text, and the power of d
    "lin-ucb-published": ("d/√T", 1),
    "lin-ucb-shared@features=arm,prior=none": ("d/√T", 1),
    "lin-ts": ("d²/√T", 2),
}
PAPER_TABLE_2 = {"queries": "1,120,461", "sessions": "159,237", "queries per session": "7"}


def table_1(run: Path) -> ReportTable:
    """Return the arms above each similarity threshold, averaged over anchors."""
    rows = []
    for row in read_rows(run / "similar_arms.csv"):
        paper = PAPER_TABLE_1.get(row["threshold"])
        published = "" if paper is None else f"{paper:,}"
        rows.append([row["threshold"], f"{float(row['arms']):,.1f}", published])
    return ReportTable(["similarity at least", "arms", "the paper's log"], rows)


def table_2(data: dict[str, Any]) -> ReportTable:
    """Return the figures of the data set."""
    ours = {
        "distinct queries (arms)": f"{data['arms']:,}",
        "queries": f"{data['queries']:,}",
        "sessions": f"{data['sessions']:,}",
        "queries per session": f"{data['queries_per_session']:.1f}",
        "dimensions of a vector": str(data["dim"]),
    }
    rows = [[name, value, PAPER_TABLE_2.get(name, "")] for name, value in ours.items()]
    return ReportTable(["", "this run", "the paper"], rows)


def examples(run: Path, shown: int = 3) -> ReportTable:
    """Return the queries of a few sessions."""
    rows = read_rows(run / "sessions.csv")
    names = list(dict.fromkeys(row["session"] for row in rows))[:shown]
    cells = [
        [row["session"], row["position"], row["query"]] for row in rows if row["session"] in names
    ]
    return ReportTable(["session", "position", "query"], cells)


def final_regrets(curves: Sequence[Curve]) -> ReportTable:
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
    return ReportTable([*header, "t = T [95%]", "floor", "cost of search"], rows)


def candidate_sets(run: Path) -> ReportTable:
    """Return the mean number of candidates of every selection, and the share without an answer."""
    names = ("selection", "reading", "k", "epsilon")
    rows = [
        [*(row[name] for name in names), f"{float(row['arms']):,.1f}", f"{float(row['floor']):.3f}"]
        for row in read_rows(run / "candidates.csv")
    ]
    return ReportTable(["selection", "reading", "k", "ε", "candidates", "floor"], rows)


def rates(curves: Sequence[Curve], dim: int) -> ReportTable:
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
    return ReportTable(header, rows)


def _is_usual(c: Curve) -> bool:
    """Whether a curve is of the published setting: max-utility, k = 250, ε = 0.5."""
    plain = c.selection == "max-utility" and c.reading == "example" and c.schedule == "none"
    return plain and c.k == "250" and c.epsilon == 0.5


def _at(curve: Curve, t: int) -> float:
    return float(curve.regret[np.searchsorted(curve.rounds, t)])
