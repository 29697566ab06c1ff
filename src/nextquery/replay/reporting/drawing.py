"""Shared by all figures: colour-blind-safe colours, and labels next to their lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Okabe and Ito (2008): eight colours safe for colour-blind readers.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PINK = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#777777"
CYCLE = (BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK)
STYLES: tuple[Any, ...] = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 1)), ":", "-")
_SETTINGS: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "nextquery",
    "savefig.dpi": 200,
}


def new_figure(
    panels: int = 1, *, rows: int = 1, width: float = 6.6, height: float = 3.6
) -> tuple[Any, list[Any]]:
    """Return a figure with panels that share the y axis, in so many rows."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, panels // rows, sharey=True, squeeze=False).ravel()
    return figure, list(axes)


def save(figure: Any, folder: Path, stem: str) -> None:
    """Save the figure as PNG and SVG; the same figure gives the same bytes."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_SETTINGS):
        figure.savefig(folder / f"{stem}.png", metadata={"Software": None})
        figure.savefig(folder / f"{stem}.svg", metadata={"Date": None, "Creator": None})


def regret_axes(axes: Any, last_round: int, *, title: str = "") -> None:
    """Set up the axes: rounds on a logarithmic axis from 1, and per-round regret."""
    axes.set_xscale("log")
    axes.set_xlim(1, last_round)
    ticks = [t for t in (1, 10, 100, 1000, 10000) if t <= last_round]
    axes.set_xticks(ticks, [f"{t:,}" for t in ticks])
    axes.set_xlabel("round t")
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title, loc="left", fontsize=9, fontweight="bold")


def label_ends(
    axes: Any, labels: Sequence[tuple[float, str, str]], *, gap: float = 0.045, size: float = 8
) -> None:
    """Write each label at the right edge, next to the end of its line, without overlaps.

    `labels` are (y of the line's end, text, colour); `gap` is the smallest distance, as a share of
    the axis. A thin leader connects a label that had to move with its line.
    """
    low, high = axes.get_ylim()
    order = sorted(labels, key=lambda label: label[0])
    targets = [(y - low) / (high - low) for y, _, _ in order]
    transform = axes.transAxes
    for (_, text, colour), own, place in zip(order, targets, apart(targets, gap), strict=True):
        leader = axes.plot([1.01, 1.05], [own, place], transform=transform, clip_on=False)
        leader[0].set(color=colour, linewidth=0.5)
        axes.text(1.06, place, text, transform=transform, color=colour, fontsize=size, va="center")


def apart(targets: Sequence[float], gap: float) -> list[float]:
    """Return places at least `gap` apart, as near to the targets as their order allows.

    Least squares under the constraint: neighbours that collide are pooled around their mean.
    No place is below 0, the bottom of the axis.

    >>> [round(place, 3) for place in apart([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    shifted = np.asarray(targets, np.float64) - gap * np.arange(len(targets))
    pools: list[tuple[float, int]] = []
    for value in shifted.tolist():
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (b, n), (a, m) = pools.pop(), pools.pop()
            pools.append(((a * m + b * n) / (m + n), m + n))
    flat = [mean for mean, count in pools for _ in range(count)]
    return [max(value, 0.0) + gap * at for at, value in enumerate(flat)]
