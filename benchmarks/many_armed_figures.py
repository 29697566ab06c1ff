"""The two figures of docs/many-armed.md, from result files."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.many_armed_worlds import WORLDS
from nextquery.research.replay.results import read_rows

ANCHORED = Path("docs/figures/many-armed-anchored.csv")
SHOWN = ("berry", "zhu", "bayati-bernoulli-3000", "bayati-gaussian-3000", "hill",
         "magureanu-unimodal")  # fmt: skip
BLUE, GREY, ORANGE = "#1f5fa8", "#8a8a8a", "#c8641b"


def draw_worlds(rows: Sequence[dict[str, str]], path: Path) -> None:
    """One panel for each world: the mean of each policy with its interval, best on top."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = [name for name in SHOWN if any(row["world"] == name for row in rows)]
    figure, axes = plt.subplots(-(-len(names) // 2), 2, figsize=(11, 8.5), layout="constrained")
    for axis, name in zip(axes.flat, names, strict=False):
        world = next(world for world in WORLDS if world.name == name)
        own = sorted((r for r in rows if r["world"] == name), key=lambda r: -float(r["mean"]))
        _dots(axis, own, "mean", [r["policy"] for r in own], [BLUE] * len(own))
        title = textwrap.fill(f"{world.title}, T\u00a0=\u00a0{world.rounds:,}", 62)
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_xlabel("failures" if world.means is None else "regret", fontsize=8)
        axis.set_xlim(0, 1.06 * max(float(row["ci_high"]) for row in own))
        axis.xaxis.set_major_formatter("{x:,.0f}")
        if name == "berry":
            for bound in (141, 200):
                axis.axvline(bound, color=GREY, lw=0.8, ls=":")
            text = "dotted: √(2N), below which no\nstrategy is, and 2√N, for runs"
            axis.text(0.98, 0.95, text, transform=axis.transAxes, fontsize=7, color=GREY,
                      ha="right", va="top")  # fmt: skip
    for axis in list(axes.flat)[len(names) :]:
        axis.set_axis_off()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def panels(rows: Sequence[dict[str, str]]) -> list[tuple[str, list[dict[str, str]]]]:
    """Return the title and the results, best first, of each set of candidates."""
    best = sorted(rows, key=lambda row: float(row["per_round_regret"]))
    sets = dict.fromkeys((row["selection"], int(row["k"])) for row in rows)
    return [
        (
            f"{k:,} candidates by {selection}" if selection != "random"
            else f"{k:,} arms drawn from the whole pool",
            [row for row in best if (row["selection"], int(row["k"])) == (selection, k)],
        )
        for selection, k in sets
    ]  # fmt: skip


def draw_anchored(path: Path) -> None:
    """Per-round regret of each policy with its interval; max-utility LinUCB stands out."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = read_rows(ANCHORED)
    shown = panels(rows)
    counts = [len(own) for _, own in shown]
    figure, axes = plt.subplots(
        len(shown), 1, figsize=(8, 0.27 * sum(counts) + 1.8), layout="constrained",
        squeeze=False, gridspec_kw={"height_ratios": counts}, sharex=True,
    )  # fmt: skip
    for axis, (title, own) in zip(axes[:, 0], shown, strict=True):
        own = own[::-1]  # the best on top
        colours = [ORANGE if "lin-ucb" in r["policy"] else GREY if r["policy"] == "random"
                   else BLUE for r in own]  # fmt: skip
        _dots(axis, own, "per_round_regret", [r["policy"] for r in own], colours)
        floor = float(own[0]["floor"])
        axis.axvline(floor, color=GREY, lw=0.8, ls=":")
        axis.set_title(
            f"{title}, {own[0]['anchors']} anchors (dotted: no policy is below)",
            fontsize=9, loc="left",
        )  # fmt: skip
    axes[-1, 0].set_xlabel(f"per-round regret at t = {rows[0]['round']}", fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _dots(
    axis: Any, rows: Sequence[dict[str, str]], value: str, labels: Sequence[str],
    colours: Sequence[str],
) -> None:  # fmt: skip
    for y, (row, colour) in enumerate(zip(rows, colours, strict=True)):
        axis.plot([float(row["ci_low"]), float(row["ci_high"])], [y, y], color=colour, lw=1.4)
        axis.plot(float(row[value]), y, "o", color=colour, ms=4.5)
    axis.set_yticks(range(len(rows)), labels, fontsize=8)
    axis.set_ylim(-0.6, len(rows) - 0.2)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(axis="x", lw=0.3)
    axis.spines[["top", "right"]].set_visible(False)
