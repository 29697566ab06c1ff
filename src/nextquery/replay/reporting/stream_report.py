"""The stream in the report: its table, paired differences, and the prefetch figure."""

from pathlib import Path
from typing import Any

import numpy as np

from nextquery.replay.metrics import bands
from nextquery.replay.reporting import drawing
from nextquery.replay.reporting.drawing import CYCLE, new_figure
from nextquery.replay.reporting.page import Table
from nextquery.replay.results import read_rows

OURS = "lin-ucb-memory"


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
    """Return our hit@10 minus each other's, on the same steps; sessions are resampled."""
    import pyarrow.parquet as pq

    table = pq.read_table(run / "stream_steps.parquet")
    names = np.array(table["policy"].to_pylist(), dtype=object)
    sessions, ranks = table["session"].to_numpy(), table["rank"].to_numpy()
    hits = {name: _hits(ranks[names == name]) for name in dict.fromkeys(names.tolist())}
    rows = []
    if OURS in hits:
        of_step = sessions[names == OURS]
        for other in hits:
            if other != OURS:
                gap, low, high = _by_session(hits[OURS] - hits[other], of_step)
                clear = "yes" if low > 0 or high < 0 else "no"
                rows.append([other, f"{gap:+.4f}", f"[{low:+.4f}, {high:+.4f}]", clear])
    return Table([f"{OURS} less", "hit@10", "95% interval", "excludes 0"], rows)


def prefetch(run: Path, folder: Path) -> bool:
    """Draw the share foreseen against the share wasted, as m grows."""
    groups = _last(run)
    if not groups:
        return False
    figure, (axes,) = new_figure(width=7.0, height=4.2)
    axes.grid(color="#e5e5e5", linewidth=0.6)
    ends = []
    plain = list(dict.fromkeys(name.partition("@")[0] for name in groups))
    for at, (name, rows) in enumerate(groups.items()):
        frozen = "=off" in name
        colour = CYCLE[plain.index(name.partition("@")[0]) % len(CYCLE)]
        wasted = [float(row["wasted"]) for row in rows]
        foreseen = [float(row["foreseen"]) for row in rows]
        line = ":" if frozen else "-"
        axes.plot(wasted, foreseen, color=colour, linestyle=line, marker="o", markersize=3)
        text = name.replace("@learning=off", ", frozen").replace("@weights=off", ", fixed weights")
        ends.append((foreseen[-1], f"{text}  {foreseen[-1]:.3f}", colour))
        if at == 0:
            for x, y, row in zip(wasted, foreseen, rows, strict=True):
                axes.annotate(
                    f"m = {row['m']}" if row["m"] == "1" else row["m"],
                    (x, y),
                    xytext=(0, 5),
                    textcoords="offset points",
                    fontsize=7,
                    ha="center",
                    color=colour,
                )
    axes.set_xlim(right=1.0)
    axes.locator_params(axis="x", nbins=6)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("share of prefetched queries wasted")
    axes.set_ylabel("share of next queries foreseen")
    drawing.label_ends(axes, ends, gap=0.055)
    drawing.save(figure, folder, "prefetch")
    return True


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


def _by_session(values: Any, sessions: Any) -> tuple[float, float, float]:
    """Return the mean over steps; sessions are resampled, because their steps are dependent.

    The bootstrap of a ratio of sums is linearised around the mean, so it becomes one of means.
    """
    own, which = np.unique(sessions, return_inverse=True)
    mean = float(values.mean())
    sums = np.bincount(which, values - mean, minlength=len(own))
    counts = np.bincount(which, minlength=len(own))
    _, low, high = bands((sums / counts.mean())[:, None])
    return mean, mean + float(low[0]), mean + float(high[0])
