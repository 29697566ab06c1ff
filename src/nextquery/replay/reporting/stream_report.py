"""The stream in the report: its table, what was a candidate, and paired differences."""

from pathlib import Path
from typing import Any

import numpy as np

from nextquery.memory import KINDS
from nextquery.replay.metrics import bands
from nextquery.replay.reporting.page import Table
from nextquery.replay.results import read_rows, read_run

OURS = "lin-ucb-memory"
_VARIANTS = {
    "@learning=off": ", frozen",
    "@weights=off": ", fixed weights",
    "@personal=off": ", nobody's own past",
}


def stream_table(run: Path) -> Table:
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
    return Table(header, rows)


def stream_differences(run: Path) -> Table:
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
    return Table([f"{OURS} less", "hit@10", "95% interval", "excludes 0"], rows)


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


def stream_answers(run: Path) -> Table:
    """Return where the answers were before, what was a candidate, and the hits by kind."""
    rows = []
    for name, own in read_run(run)["stream"]["recommenders"].items():
        hits = own["hits_at_10"]
        counts = [f"{hits[kind]:,}" if sum(hits.values()) else "" for kind in KINDS]
        rows.append([name, f"{own['coverage']:.3f}", f"{own['offered']:.1f}", *counts])
    return Table(["policy", "coverage", "offered", *(f"hits: {kind}" for kind in KINDS)], rows)


def stream_note(run: Path) -> str:
    """Return a sentence on what the stream counts."""
    summary = read_run(run)["stream"]
    answers = summary["answers"]
    whose = (
        f"{summary['people']:,} people. The recommender knows each person's own past, which in the "
        "service needs user ids that it can trust; @personal=off is without"
        if summary["personal"]
        else f"{summary['people']:,} sessions; whose they were is not known"
    )
    return (
        f"By the clock from {summary['start'][:10]}: {summary['steps']:,} steps of {whose}. "
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
