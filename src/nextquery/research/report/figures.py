"""The figures of a report, each made from result files alone, and the page that shows them.

Curves of per-round regret are read from the result files. All figures share colour-blind-safe
colours, and labels next to their lines. A page is a list of blocks, written as Markdown and as
one self-contained HTML page.
"""

import html
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nextquery.research.replay.results import read_rows

Floats = NDArray[np.float64]
REFERENCE = Path(__file__).with_name("reference_curves.csv")


class Curve(NamedTuple):
    """One cell of a grid, averaged over its seeds: what it is, its curve with a band, its floor."""

    selection: str
    policy: str
    reading: str
    k: str
    epsilon: float
    schedule: str
    seeds: int
    rounds: Floats
    regret: Floats
    low: Floats
    high: Floats
    floor: float
    anchors: int

    @property
    def last(self) -> float:
        """R(T)/T."""
        return float(self.regret[-1])

    @property
    def search_cost(self) -> float:
        """(R(T)/T − floor)/(1 − floor): the share of reachable reward that was lost."""
        return (self.last - self.floor) / (1 - self.floor) if self.floor < 1 else float("nan")


def read_curves(run: Path) -> list[Curve]:
    """Return the curves of a run, in its order: averages over seeds."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    names = ("selection", "policy", "reading", "k", "epsilon", "schedule", "seeds")
    for row in read_rows(run / "averages.csv"):
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    curves = []
    for (selection, policy, reading, k, epsilon, schedule, seeds), rows in groups.items():
        t, regret, low, high = (
            np.array([float(row[column]) for row in rows])
            for column in ("round", "per_round_regret", "ci_low", "ci_high")
        )
        floor, anchors = float(rows[0]["floor"]), int(rows[0]["anchors"])
        described = (selection, policy, reading, k, float(epsilon), schedule, int(seeds))
        curves.append(Curve(*described, t, regret, low, high, floor, anchors))
    return curves


def reference(figure: str) -> dict[str, tuple[Floats, Floats]]:
    """Return the paper's own curves of a figure: rounds and per-round regret by series.

    >>> float(reference("fig2_algorithms")["lin_ucb"][1][-1])
    0.344
    """
    series: dict[str, list[tuple[float, float]]] = {}
    for row in read_rows(REFERENCE):
        if row["figure"] == figure:
            point = (float(row["round"]), float(row["per_round_regret"]))
            series.setdefault(row["series"], []).append(point)
    return {
        name: (np.array([t for t, _ in points]), np.array([r for _, r in points]))
        for name, points in series.items()
    }


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
    save(figure, folder, "figure-1")
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
    save(figure, folder, "figure-2")
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
    save(figure, folder, stem)
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


class Heading(NamedTuple):
    """A title; level 1 is the title of the report."""

    text: str
    level: int = 2


class Paragraph(NamedTuple):
    """Plain text."""

    text: str


class ReportTable(NamedTuple):
    """Rows under a header; all cells are strings."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


class Picture(NamedTuple):
    """A figure by the stem of its files (PNG and SVG), with its caption."""

    stem: str
    caption: str


Block = Heading | Paragraph | ReportTable | Picture


def markdown(blocks: Sequence[Block]) -> str:
    """Return the report as Markdown; figures link to the PNG files next to it.

    >>> print(markdown([Heading("A"), ReportTable(["x", "y"], [["1", "a|b"]])]))
    ## A
    <BLANKLINE>
    | x | y |
    |---|---|
    | 1 | a\\|b |
    <BLANKLINE>
    """
    parts = []
    for block in blocks:
        match block:
            case Heading(text, level):
                parts.append(f"{'#' * level} {text}\n")
            case Paragraph(text):
                parts.append(f"{text}\n")
            case ReportTable(header, rows, caption):
                lines = [header, ["---"] * len(header), *rows]
                drawn = [_markdown_row(line, rule=at == 1) for at, line in enumerate(lines)]
                parts.append("\n".join([f"{caption}\n"] * bool(caption) + drawn) + "\n")
            case Picture(stem, caption):
                parts.append(f"![{caption}](figures/{stem}.png)\n\n*{caption}*\n")
    return "\n".join(parts)


def page(blocks: Sequence[Block], figures: Path) -> str:
    """Return the report as one self-contained HTML page: figures are inline SVG."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Report")
    body = "\n".join(_html(block, figures) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _markdown_row(cells: Sequence[str], *, rule: bool) -> str:
    if rule:
        return "|" + "|".join(cells) + "|"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _html(block: Block, figures: Path) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{html.escape(text)}</p>"
        case ReportTable(header, rows, caption):
            head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in header)
            lines = "".join(
                "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
                for row in rows
            )
            title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
            table = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
            return f'<div class="wide">{table}</div>'
        case Picture(stem, caption):
            text = html.escape(caption)
            drawing = (figures / f"{stem}.svg").read_text(encoding="utf-8")
            inline = drawing[drawing.index("<svg") :].replace(
                "<svg", f'<svg role="img" aria-label="{text}"', 1
            )
            # Ids are made unique per figure, because all figures share one page.
            inline = inline.replace('id="', f'id="{stem}-').replace("url(#", f"url(#{stem}-")
            inline = inline.replace('href="#', f'href="#{stem}-')
            return f"<figure>{inline}<figcaption>{text}</figcaption></figure>"


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 0.5rem; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; }
figcaption, caption { color: #444; font-size: 0.9rem; text-align: left; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid #ddd; text-align: left; }
thead th { border-bottom: 2px solid #1a1a1a; vertical-align: bottom; }
"""
