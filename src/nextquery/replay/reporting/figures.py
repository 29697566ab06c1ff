"""The figures, each made from result files alone."""

from collections.abc import Callable, Sequence
from pathlib import Path

from nextquery.replay.reporting import drawing
from nextquery.replay.reporting.curves import Curve, reference
from nextquery.replay.reporting.drawing import (
    BLACK,
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    RED,
    SKY,
    STYLES,
    label_ends,
    new_figure,
    regret_axes,
)
from nextquery.replay.results import read_rows

LOOKS = {  # policy: label, colour, line, series of the paper
    "lin-ucb": ("LinUCB, ours", BLUE, "-", None),
    "lin-ucb-feedback": ("LinUCB, feedback", BLUE, (0, (4, 1)), None),
    "lin-ucb-published": ("LinUCB, published", RED, "-", "lin_ucb"),
    "lin-ucb-shared": ("LinUCB, shared", SKY, "-", None),
    "lin-ts": ("LinTS", GREEN, "-", "lin_ts"),
    "most-similar": ("Most Similar", PINK, "-", "similar"),
    "random": ("Random", ORANGE, "-", "random"),
}
_MARKERS = "os^Dv"


def figure_1(run: Path, folder: Path) -> bool:
    """Queries of five sessions in the plane of their two main directions."""
    rows = read_rows(run / "sessions.csv")
    if not rows:
        return False
    figure, (axes,) = new_figure(width=5.2, height=4.0)
    for at, session in enumerate(dict.fromkeys(row["session"] for row in rows)):
        queries = [row for row in rows if row["session"] == session]
        x, y = [float(row["x"]) for row in queries], [float(row["y"]) for row in queries]
        axes.plot(x, y, color=CYCLE[at], linewidth=0.5, alpha=0.5)
        axes.scatter(x, y, s=28, color=CYCLE[at], marker=_MARKERS[at % 5], label=session, zorder=3)
    axes.legend(title="session", frameon=False, fontsize=8, title_fontsize=8)
    axes.set_xlabel("first principal direction")
    axes.set_ylabel("second principal direction")
    drawing.save(figure, folder, "figure-1")
    return True


def figure_2(curves: Sequence[Curve], folder: Path) -> bool:
    """Per-round regret of all algorithms, their floors, and the paper's curves as thin lines."""
    plain = list(filter(lambda c: _default(c) and _kind(c) in ("max-utility", "zooming"), curves))
    if not plain:
        return False
    last = int(max(curve.rounds[-1] for curve in plain))
    figure, (axes,) = new_figure(width=7.2, height=4.6)
    regret_axes(axes, last)
    axes.set_ylabel("per-round regret R(t)/t")
    labels = []
    for curve in plain:
        text, colour, line, series = LOOKS.get(curve.policy, (curve.policy, GREY, ":", None))
        if curve.selection != "max-utility":
            text, colour, line = f"{curve.selection}, {text}", GREY, "--"
        axes.plot(curve.rounds, curve.regret, color=colour, linestyle=line)
        axes.fill_between(curve.rounds, curve.low, curve.high, color=colour, alpha=0.12, lw=0)
        labels.append((curve.last, f"{text}  {curve.last:.3f}", colour))
        if series and curve.selection == "max-utility":
            t, values = reference("fig2_algorithms")[series]
            axes.plot(t[t <= last], values[t <= last], color=colour, linewidth=0.6, alpha=0.8)
    randoms = list(filter(lambda c: _default(c) and c.selection == "random", curves))
    for curve in randoms:
        axes.plot(curve.rounds, curve.regret, color=BLACK, linewidth=0.8, linestyle=":")
    if randoms:
        least = min(curve.last for curve in randoms)
        labels.append((least, f"random selection, any  ≥ {least:.3f}", BLACK))
    axes.set_ylim(_bottom([*plain, *randoms], papers=True), 1.005)
    for selection in dict.fromkeys(curve.selection for curve in plain):
        floor = next(curve.floor for curve in plain if curve.selection == selection)
        colour = BLACK if selection == "max-utility" else GREY
        axes.axhline(floor, color=colour, linewidth=0.8, linestyle=(0, (1, 2)))
        labels.append((floor, f"floor, {selection}  {floor:.3f}", colour))
    label_ends(axes, labels, gap=0.05)
    drawing.save(figure, folder, "figure-2")
    return True


def figure_3(curves: Sequence[Curve], folder: Path) -> bool:
    """Per-round regret for different k: the published policy, and ours."""
    sweep = list(filter(lambda c: _best_first(c) and c.epsilon == 0.5, curves))
    policies = ("lin-ucb-published", "lin-ucb")
    by_policy = [[c for c in sweep if c.policy == policy] for policy in policies]
    panels = [sorted(part, key=lambda c: int(c.k)) for part in by_policy if len(part) > 1]
    titles = [LOOKS[part[0].policy][0] for part in panels]
    return _sweep(panels, titles, "k", lambda c: c.k, folder, "figure-3", paper="fig3_k")


def figure_4(curves: Sequence[Curve], folder: Path) -> bool:
    """Per-round regret for different ε, one panel per reading."""
    sweeps = list(filter(_swept, curves))
    sizes = [c.k for c in sweeps]
    common = max(set(sizes), key=sizes.count, default="")
    panels, titles = [], []
    for reading in dict.fromkeys(curve.reading for curve in sweeps):
        part = [c for c in sweeps if c.reading == reading and c.k == common]
        if len(part) > 1:
            panels.append(sorted(part, key=lambda c: c.epsilon))
            titles.append(f"reading “{reading}”")
    return _sweep(panels, titles, "ε", lambda c: f"{c.epsilon:g}", folder, "figure-4")


def selections(curves: Sequence[Curve], folder: Path) -> bool:
    """Per-round regret of the published LinUCB over the candidates of each selection."""
    part = list(filter(lambda c: _default(c) and c.policy == "lin-ucb-published", curves))
    panels = [part] if len({_kind(c) for c in part}) > 2 else []
    titles = [LOOKS["lin-ucb-published"][0]]
    return _sweep(panels, titles, "", lambda c: c.selection, folder, "selections")


def _sweep(
    panels: Sequence[Sequence[Curve]],
    titles: Sequence[str],
    symbol: str,
    value: Callable[[Curve], str],
    folder: Path,
    stem: str,
    paper: str | None = None,
) -> bool:
    if not panels:
        return False
    columns = 2 if len(panels) == 4 else len(panels)
    rows = len(panels) // columns
    width = max(3.4 * columns + 0.6, 6.6)
    figure, axes = new_figure(len(panels), rows=rows, width=width, height=3.6 * rows)
    everything = [curve for part in panels for curve in part]
    for at, (part, title) in enumerate(zip(panels, titles, strict=True)):
        last = int(max(curve.rounds[-1] for curve in part))
        regret_axes(axes[at], last, title=title)
        axes[at].set_ylim(_bottom(everything, papers=paper is not None), 1.005)
        order = [id(curve) for curve in part]
        labels, by_line = [], dict[bytes, list[Curve]]()
        for number, curve in enumerate(part):
            colour, line = CYCLE[number % len(CYCLE)], STYLES[number % len(STYLES)]
            axes[at].plot(curve.rounds, curve.regret, color=colour, linestyle=line)
            axes[at].plot([last], [curve.floor], marker="<", color=colour, clip_on=False, ms=5)
            by_line.setdefault(curve.regret.tobytes(), []).append(curve)
            series = reference(paper).get(curve.k) if paper and at == 0 else None
            if series is not None:
                t, values = series
                axes[at].plot(t[t <= last], values[t <= last], color=colour, lw=0.6, alpha=0.8)
        for same in by_line.values():  # identical curves share one label
            colour = CYCLE[order.index(id(same[-1])) % len(CYCLE)]
            which = f"{symbol} = " if symbol else ""
            which += ", ".join(value(curve) for curve in same)
            which = f"every {symbol}" if len(same) == len(part) > 1 else which
            labels.append((same[0].last, f"{which}  {same[0].last:.3f}", colour))
        label_ends(axes[at], labels, gap=0.06)
    for first in axes[::columns]:
        first.set_ylabel("per-round regret R(t)/t")
    drawing.save(figure, folder, stem)
    return True


def _default(curve: Curve) -> bool:
    """Whether a curve belongs in Figure 2: the default k and ε, and policies without variants."""
    usual = curve.k in ("250", "") and curve.epsilon == 0.5 and curve.schedule == "none"
    return usual and curve.reading == "example" and "@" not in curve.policy


def _kind(curve: Curve) -> str:
    """Return the selection without its variant."""
    return curve.selection.partition("@")[0]


def _swept(curve: Curve) -> bool:
    """Whether a curve belongs in Figure 4: any ε and reading."""
    plain = curve.selection == "max-utility" and curve.schedule == "none"
    return plain and curve.policy == "lin-ucb-published"


def _best_first(curve: Curve) -> bool:
    plain = curve.selection == "max-utility" and curve.schedule == "none"
    return plain and curve.reading == "example"


def _bottom(curves: Sequence[Curve], *, papers: bool) -> float:
    """Return the lower end of the axis: a little below everything that is drawn."""
    lowest = min(min(curve.floor, float(curve.regret.min())) for curve in curves)
    if papers:
        lowest = min(lowest, *(float(v.min()) for _, v in reference("fig2_algorithms").values()))
    return max(0.0, lowest - 0.04)
