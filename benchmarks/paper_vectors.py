"""The paper's experiment with two kinds of vectors, and the stream on topics over several seeds.

Runs `nextquery reproduce` on a log with the encoder `tuned` and with the paper's own, a BERT that
`nextquery train --method bert` wrote, on the same anchors; then the stream on topics with every
seed. Prints the two runs side by side. An interrupted run continues where it stopped.

``python -m benchmarks.paper_vectors LOG --bert BERT --out RUN``, or the stream alone:
``python -m benchmarks.paper_vectors --out RUN``
"""

import argparse
import os
import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import t as student

from nextquery.research.report.figures import Curve, Heading, ReportTable, markdown, read_curves
from nextquery.research.report.tables import claims, interval, policies

STREAM = ("lin-ucb-memory", "lin-ucb-memory@personal=off")


def nextquery(*words: object, **environment: str) -> None:
    """Run a command of nextquery; its progress goes to this terminal."""
    command = [sys.executable, "-m", "nextquery", *map(str, words)]
    print("$ nextquery", *words, file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, **environment})


def anchored(args: argparse.Namespace) -> None:
    """Make both anchored runs; the encoder of each one has not seen the sessions of the anchors."""
    for name, encoder, zooming in (("tuned", "tuned", 0.5), ("bert", args.bert, args.zooming)):
        options: list[object] = ["--hold-out", args.hold_out, "--anchors", args.anchors]
        options += ["--rounds", args.rounds, "--seeds", args.seeds, "--stream", 0]
        options += ["--encoder", encoder, "--zooming", zooming, "--out", args.out / name]
        nextquery("reproduce", args.log, *options)


def beside(runs: Sequence[Path]) -> ReportTable:
    """Return R(T)/T of every cell with its interval, and the floor, for each run."""
    by_run = [{_cell(curve): curve for curve in read_curves(run)} for run in runs]
    rows = [
        [*cell, *(text for curves in by_run for text in _end(curves.get(cell)))]
        for cell in dict.fromkeys(cell for curves in by_run for cell in curves)
    ]
    header = ["selection", "policy", "reading", "k", "ε", "schedule"]
    header += [f"{run.name}: {what}" for run in runs for what in ("t = 100", "t = T", "floor")]
    return ReportTable(header, rows)


def _cell(curve: Curve) -> tuple[str, ...]:
    selection = curve.selection.partition("@")[0]
    return (selection, curve.policy, curve.reading, curve.k, f"{curve.epsilon:g}", curve.schedule)


def _end(curve: Curve | None) -> list[str]:
    if curve is None:
        return ["", "", ""]
    early = np.interp(100, curve.rounds, curve.regret)
    end = f"{curve.last:.3f} [{curve.low[-1]:.3f}, {curve.high[-1]:.3f}]"
    return [f"{early:.3f}", end, f"{curve.floor:.3f}"]


def stream(args: argparse.Namespace) -> ReportTable:
    """Play the stream on topics with every seed, and return hit@10 with intervals."""
    pool = args.out / "topics"
    runs: list[Path] = []
    if not (pool / "manifest.json").exists():
        personal = ("--personal", "--hold-out", 16100, "--out", pool)
        nextquery("ingest", "topics", *personal, NEXTQUERY_USER_HASH_SECRET=secrets.token_hex(32))
    for seed in range(args.seeds):
        runs.append(args.out / f"stream-{seed}")
        names = [word for name in STREAM for word in ("--policy", name)]
        how = ("--since", args.since, "--seed", seed, "--out", runs[-1])
        nextquery("replay", pool, "--protocol", "stream", *names, *how)
    steps = [pq.read_table(run / "stream_steps.parquet").to_pydict() for run in runs]
    rows = []
    for name in STREAM:
        hits = np.array([_hits(table, name) for table in steps])
        people = np.array(steps[0]["person"])[np.array(steps[0]["policy"]) == name]
        mean, low, high = over_people_and_seeds(hits, people)
        own = ", ".join(f"{value:.4f}" for value in hits.mean(axis=1))
        rows.append([name, f"{mean:.4f} [{low:.4f}, {high:.4f}]", own, f"{len(people):,}"])
    return ReportTable(["policy", "hit@10 [95%]", "each seed", "steps"], rows)


def over_people_and_seeds(hits: Any, people: Any) -> tuple[float, float, float]:
    """Return the mean over seeds (rows) and steps, with an interval that covers people and seeds.

    One model learns along a stream, so a seed moves all steps together. The two errors are
    independent and add in squares: people are resampled, and seeds have Student's interval.
    """
    mean, low, high = interval(hits.mean(axis=0), people)
    seeds = len(hits)
    spread = float(hits.mean(axis=1).std(ddof=1)) if seeds > 1 else 0.0
    luck = float(student.ppf(0.975, seeds - 1)) * spread / seeds**0.5 if seeds > 1 else 0.0
    return mean, mean - float(np.hypot(mean - low, luck)), mean + float(np.hypot(high - mean, luck))


def _hits(table: dict[str, list[Any]], name: str) -> Any:
    ranks = np.array(table["rank"])[np.array(table["policy"]) == name]
    return ((ranks > 0) & (ranks <= 10)).astype(np.float64)


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", nargs="?", help="the log of the anchored part; none: no such part")
    parser.add_argument("--bert", help="folder of the trained encoder; needed with a log")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--anchors", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--hold-out", type=int, default=2000)
    parser.add_argument("--zooming", type=float, default=0.8, help="zooming's threshold for BERT")
    parser.add_argument("--since", default="2018-01-01", help="first day of the stream's answers")
    parser.add_argument("--no-stream", action="store_true")
    args = parser.parse_args()
    if (args.log is None) != (args.bert is None):
        parser.error(f"pass both LOG and --bert, or neither; received {args.log}, {args.bert}.")
    args.out.mkdir(parents=True, exist_ok=True)
    blocks: list[Any] = []
    if args.log is not None:
        anchored(args)
        runs = [args.out / "tuned", args.out / "bert"]
        blocks += [Heading("Anchored", 2), beside(runs)]
        for run in runs:
            blocks += [Heading(f"Paired differences, {run.name}", 3), policies(run), claims(run)]
    if not args.no_stream:
        blocks += [Heading("Stream on topics", 2), stream(args)]
    text = markdown(blocks)
    (args.out / "vectors.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
