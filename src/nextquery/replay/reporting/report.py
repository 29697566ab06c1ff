"""`report`: figures and tables from result files alone, as Markdown and as one HTML page."""

import json
import os
from pathlib import Path
from typing import Any

from nextquery.checks import installed
from nextquery.errors import NotAFolder
from nextquery.replay.reporting import figures, stream_report, tables
from nextquery.replay.reporting.curves import read_curves
from nextquery.replay.reporting.page import Block, Heading, Paragraph, Picture, markdown, page
from nextquery.replay.results import write_atomically

CAPTIONS = {
    "figure-1": "Figure 1. Queries of five sessions in the plane of their two main directions; "
    "lines join a session's queries in their order.",
    "figure-2": "Figure 2. Per-round regret of the algorithms with 95% bands over anchors. Dotted "
    "horizontal lines: the floor, 1 − coverage, the lowest regret any policy can reach. Thin "
    "lines: the paper's own curves, on its own log, in the colour of the same algorithm.",
    "figure-3": "Figure 3. Per-round regret for different k. Triangles: the floor of each k. "
    "Thin lines: the paper's own curves.",
    "figure-4": "Figure 4. Per-round regret of the published LinUCB for different ε, in the three "
    "readings of the paper. Triangles: the floors.",
    "prefetch": "Prefetching m queries at every step: the share of next queries foreseen against "
    "the share of prefetches wasted, for m = 1 to 20.",
}


def report(run: str | os.PathLike[str]) -> Path:
    """Write ``report.md``, ``report.html`` and ``figures/`` into the folder of a run."""
    installed("replay", "matplotlib", "pyarrow")
    folder = Path(run)
    run_info = _run(folder)
    blocks: list[Block] = [Heading("Replay of the paper's experiments", 1)]
    blocks += [Paragraph(line) for line in _cost(run_info)]
    blocks += [Heading("The data"), tables.table_2(run_info["data"])]
    blocks += [Paragraph(line) for line in _vectors(run_info)]
    if (folder / "similar_arms.csv").exists():
        blocks += [Heading("Table 1: arms above a similarity, averaged over anchors", 3)]
        blocks += [tables.table_1(folder)]
        blocks += [Heading("Example sessions", 3), tables.examples(folder)]
        if figures.figure_1(folder, folder / "figures"):
            blocks.append(Picture("figure-1", CAPTIONS["figure-1"]))
    if (folder / "results.csv").exists():
        blocks += _anchored(folder)
    if (folder / "stream.csv").exists():
        blocks += _stream(folder)
    write_atomically(folder / "report.md", markdown(blocks).encode())
    write_atomically(folder / "report.html", page(blocks, folder / "figures").encode())
    return folder / "report.html"


def _anchored(folder: Path) -> list[Block]:
    curves, target = read_curves(folder / "results.csv"), folder / "figures"
    blocks: list[Block] = [Heading("Per-round regret on fixed anchors (protocol “anchored”)")]
    drawn = {
        "figure-2": figures.figure_2(curves, target),
        "figure-3": figures.figure_3(curves, target),
        "figure-4": figures.figure_4(curves, target),
    }
    blocks += [Picture(stem, CAPTIONS[stem]) for stem, exists in drawn.items() if exists]
    blocks += [
        Heading("Paired differences", 3),
        Paragraph(
            "Max-utility selection, reading “example”, ε = 0.5, no schedule, k = 250 (or the "
            "largest k run), the first seed; all cells are in the table below. "
            "Both policies run on the same anchors and candidates; a negative difference means "
            "less regret for the first. Anchors differ far more than algorithms, so only these "
            "intervals can separate two good algorithms."
        ),
        tables.paired(folder),
        Heading("Final regrets", 3),
        Paragraph(
            "The floor is the cost of the candidates: the share of anchors with no next query "
            "among them. Cost of search = (R(T)/T − floor)/(1 − floor): the share of the "
            "reachable reward that was lost while searching."
        ),
        tables.final_regrets(curves),
    ]
    return blocks


def _stream(folder: Path) -> list[Block]:
    run = _run(folder)["stream"]
    options = run["options"]
    blocks: list[Block] = [
        Heading("Sessions in order of time (protocol “stream”)"),
        Paragraph(
            f"{run['steps']:,} steps of the last {options['sessions']:,} sessions, after a warm "
            f"start on {options['warm']:,}; seed {options['seed']}. Every step recommends for the "
            f"current query, users see {options['shown']} recommendations, and the session's real "
            f"next query is the answer. A session {'may' if options['repeat'] else 'does not'} see "
            "the same recommendation again. The regret counts only the first recommendation; MRR "
            "counts ranks up to 20. If the vectors were fitted on these sessions, they have seen "
            "the answers: make the pool with --hold-out."
        ),
        stream_report.stream_table(folder),
        Heading("Paired differences in hit@10", 3),
        stream_report.stream_differences(folder),
    ]
    if stream_report.prefetch(folder, folder / "figures"):
        blocks.append(Picture("prefetch", CAPTIONS["prefetch"]))
    return blocks


def _run(folder: Path) -> dict[str, Any]:
    try:
        run: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotAFolder(
            f"{folder} is not the folder of a run: it has no run.json. Pass a folder that "
            "`nextquery replay` or `nextquery reproduce` wrote."
        ) from None
    return run


def _vectors(run: dict[str, Any]) -> list[str]:
    """Describe whether the vectors have seen the answers."""
    if "anchored" not in run:
        return []
    options = run["anchored"]["options"][0]
    name = options["encoder"] or "of unknown origin"
    if options["held_out"]:
        return [
            f"Vectors: {name}. Anchors come from the last {options['held_out']:,} sessions, which "
            "were held out when the vectors were fitted."
        ]
    return [
        f"Vectors: {name}. Anchors come from all sessions: if the vectors were fitted on sessions, "
        "they have seen the answers, and the floor below measures memory."
    ]


def _cost(run: dict[str, Any]) -> list[str]:
    lines = []
    for part in ("anchored", "stream"):
        if part in run:
            spent = run[part]
            if spent["processes"] is None:
                lines.append(
                    f"Protocol “{part}”: {spent['seconds']:,} s on a cluster; the driver "
                    f"process used {spent['peak_bytes_main'] / 2**30:.2f} GiB of memory."
                )
                continue
            lines.append(
                f"Protocol “{part}”: {spent['seconds']:,} s in {spent['processes']} processes, at "
                f"most {spent['peak_bytes_at_most'] / 2**30:.2f} GiB of memory (shared pages "
                "counted once per process)."
            )
    return lines
