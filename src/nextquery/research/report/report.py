"""The report: figures and tables from result files alone, as Markdown and as one HTML page."""

import json
import os
from pathlib import Path
from typing import Any

from nextquery.checks import installed
from nextquery.errors import NotAFolder
from nextquery.research.replay.results import write_atomically
from nextquery.research.report import figures, tables
from nextquery.research.report.figures import (
    Block,
    Heading,
    Paragraph,
    Picture,
    markdown,
    page,
    read_curves,
)

CAPTIONS = {
    "figure-1": "Figure 1. Queries of five sessions in the plane of their two main directions; "
    "lines join a session's queries in their order.",
    "figure-2": "Figure 2. Per-round regret of the algorithms, averaged over the seeds, with 95% "
    "bands that cover anchors and seeds. Dotted "
    "horizontal lines: the floor, 1 − coverage, the lowest regret any policy can reach. Thin "
    "lines: the paper's own curves, on its own log, in the colour of the same algorithm.",
    "figure-3": "Figure 3. Per-round regret for different k. Triangles: the floor of each k. "
    "Thin lines: the paper's own curves.",
    "figure-4": "Figure 4. Per-round regret of the published LinUCB for different ε, in every "
    "reading of the paper. Triangles: the floors.",
    "selections": "Per-round regret of the published LinUCB over the candidates of each selection: "
    "max-utility, zooming, the two that the paper calls naive (threshold, sampled), and random. "
    "Triangles: the floors.",
    "prefetch": "Prefetching what is offered: the share of next queries foreseen against the share "
    "of the offers wasted. Points: the first m offers of every step, for m = 1, 2, 3, 5, 10 and 20 "
    "(hollow: parts of ours switched off). Lines: all offers above a threshold, by the calibrated "
    "probability of a forecast, or by a rival's own share of scores. Who offers nothing wastes "
    "nothing.",
}
_EQUAL_WASTE = (
    "At the waste of each recommender's first m offers: what these foresee, what a threshold on "
    "its own scores foresees, and what lin-ucb-memory foresees with a threshold on its calibrated "
    "probability (for itself: less its own first m). The last columns are paired on the same "
    "steps; people are resampled."
)


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
        blocks += [Heading("Table 2: arms above a similarity, averaged over anchors", 3)]
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
    curves, target, run = read_curves(folder), folder / "figures", _run(folder)
    blocks: list[Block] = [Heading("Per-round regret on fixed anchors (protocol “anchored”)")]
    drawn = {
        "figure-2": figures.figure_2(curves, target),
        "figure-3": figures.figure_3(curves, target),
        "figure-4": figures.figure_4(curves, target),
        "selections": figures.selections(curves, target),
    }
    blocks += [Picture(stem, CAPTIONS[stem]) for stem, exists in drawn.items() if exists]
    blocks.insert(1, Paragraph(_seeds(run)))
    blocks += [
        Heading("Paired differences", 3),
        Paragraph(
            "Max-utility selection, reading “example”, ε = 0.5, no schedule, k = 250 (or the "
            "largest k run); all cells are in the table below. "
            "Both policies run on the same anchors and candidates; a negative difference means "
            "less regret for the first. Anchors differ far more than algorithms, so only these "
            "intervals can separate two good algorithms."
        ),
        tables.policies(folder),
    ]
    if (others := tables.claims(folder)).rows:
        blocks += [
            Heading("The paper's other comparisons, paired", 3),
            Paragraph(
                "Between selections (on the same anchors), between sets that grow (Algorithm 2, "
                "“bump”) and fixed ones, and between LinUCB and LinTS with the same model: one for "
                "all arms, over the arm's vector."
            ),
            others,
        ]
    if (swept := tables.sweeps(folder)).rows:
        words = "The published LinUCB on the same anchors, with other k and other ε."
        blocks += [Heading("k and ε, paired", 3), Paragraph(words), swept]
    if (quoted := tables.rates(curves, run["data"]["dim"])).rows:
        blocks += [
            Heading("The order of the regret in T and d", 3),
            Paragraph(
                "The paper explains LinUCB's lead by the orders d/√T and d²/√T of the per-round "
                "regret. A bound above 1 says nothing, since no round can cost more. The exponent "
                "is the slope of log(R(t)/t − floor) over log t, for t from T/4 to T: −½ for the "
                "order √T, −1 for a policy that no longer errs."
            ),
            quoted,
        ]
    if (folder / "candidates.csv").exists():
        blocks += [Heading("Candidate sets", 3), tables.candidate_sets(folder)]
    blocks += [
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
        Heading("Queries in order of time (protocol “stream”)"),
        Paragraph(
            f"{run['steps']:,} steps with an answer {_since(options)}, after a warm start on "
            f"{options['warm']:,} sessions; seed {options['seed']}. Every step recommends for the "
            f"current query, users see {options['shown']} recommendations, and the session's real "
            f"next query is the answer. A session {'may' if options['repeat'] else 'does not'} see "
            "the same recommendation again, and its own earlier queries "
            f"{'may' if options['returns'] else 'do not'} come back. The regret counts only "
            "the first recommendation; MRR counts ranks up to 20. If the vectors were fitted on "
            "these sessions, they have seen the answers: make the pool with --hold-out."
        ),
        Paragraph(tables.stream_note(folder)),
        tables.stream_table(folder),
        Heading("What was a candidate, and the hits by kind", 3),
        tables.stream_answers(folder),
        Heading("Paired differences in hit@10", 3),
        tables.stream_differences(folder),
    ]
    blocks.append(Heading("Prefetching", 3))
    tables.prefetch_figure(folder, folder / "figures")
    blocks.append(Picture("prefetch", CAPTIONS["prefetch"]))
    table = tables.prefetch_table(folder)
    if table is not None:
        blocks += [Paragraph(_EQUAL_WASTE), table]
    return blocks


def _since(options: dict[str, Any]) -> str:
    """Say which answers are scored."""
    if options.get("since"):
        return f"of {options['since']} or later"
    return f"since the last {options['sessions']:,} sessions began"


def _run(folder: Path) -> dict[str, Any]:
    try:
        run: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotAFolder(
            f"{folder} is not the folder of a run: it has no run.json. Pass a folder that "
            "`nextquery replay` or `nextquery reproduce` wrote."
        ) from None
    return run


def _seeds(run: dict[str, Any]) -> str:
    """Say what is averaged, and what the intervals cover."""
    options = run["anchored"]["options"][0]
    seeds = options["seeds"]
    return (
        f"Averages over {len(seeds)} seed{'s' if len(seeds) > 1 else ''} of the policies (and of "
        f"selections that draw) on the same anchors, drawn with seed {options['anchor_seed']}; "
        "the table of final regrets says which slow ones had fewer. "
        "Intervals are 95% bootstrap intervals: every anchor is averaged over its seeds, then "
        "anchors are resampled. An anchor's draws do not depend on another's, so the intervals "
        "cover both anchors and seeds. They do not cover the log or the encoder."
    )


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
