"""The prefetch view of a stream: what is foreseen against what is wasted, as figure and table."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nextquery.replay.prefetch import (
    SIZES,
    Flags,
    Forecasts,
    Prefetched,
    best_at_waste,
    counted,
    first_m,
)
from nextquery.replay.reporting import drawing
from nextquery.replay.reporting.page import Table
from nextquery.replay.reporting.stream_report import OURS, interval, shown_name
from nextquery.sessions import Ids

_COMPARED = (1, 3, 10)  # values of m in the table
_FEWEST = 0.01  # offers per step from which on a threshold is drawn


class Steps(NamedTuple):
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


def read_steps(run: Path) -> dict[str, Steps]:
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
        found[name] = Steps(columns["rank"], columns["offered"], columns["person"], forecasts)
    return found


def prefetch_table(run: Path) -> Table | None:
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
    return Table(header, rows)


def prefetch_figure(run: Path, folder: Path) -> None:
    """Draw the share foreseen against the share wasted: points for m, a line for thresholds."""
    steps = read_steps(run)
    figure, (axes,) = drawing.new_figure(width=7.4, height=4.6)
    axes.grid(color="#e5e5e5", linewidth=0.6)
    others = list(dict.fromkeys(_plain(name) for name in steps if _plain(name) != OURS))
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
    drawing.label_ends(axes, ends, gap=0.055)
    drawing.save(figure, folder, "prefetch")


def _plain(name: str) -> str:
    return name.partition("@")[0]


def _look(name: str, others: list[str]) -> tuple[str, str, str]:
    """Return colour, marker and the same as a character; no other has the colour of ours."""
    if _plain(name) == OURS:
        switched = {"@learning=off": ("^", "△"), "@weights=off": ("v", "▽")}
        return drawing.CYCLE[0], *switched.get(
            name.removeprefix(OURS), ("o", "○" if "=off" in name else "●")
        )
    again, colour = divmod(others.index(_plain(name)), len(drawing.CYCLE) - 1)
    return drawing.CYCLE[1 + colour], *(("o", "●") if not again else ("s", "■"))


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
