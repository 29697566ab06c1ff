"""Print the tables of docs/measurements/encoders.md from the rows of encoder_comparison.py.

    python -m benchmarks.encoder_tables docs/figures/encoders.jsonl

Further lines may contain speeds (from encoder_speed.py); they override those of the rows.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encoder_floors import KS
from nextquery.research.replay.metrics import difference

COMPARED = ("contrastive-residual", "tuned")  # the best, and the best without a GPU
Row = dict[str, Any]


def floors(rows: Sequence[Row]) -> Iterator[str]:
    """Floors of every encoder and split."""
    yield from _head("encoder", "split", *(f"@{k}" for k in KS), "unseen @250")
    for row in rows:
        unseen = _cells(row["unseen"], (250,)) if row["split"] == "plain" else "all are"
        yield f"| {row['encoder']} | {row['split']} | {_cells(row['all'], KS)} | {unseen} |"


def paired(rows: Sequence[Row], ours: str) -> Iterator[str]:
    """One encoder's floors minus those of the others, over the same anchors."""
    yield from _head(f"{ours} minus", "split", *(f"@{k}" for k in KS))
    own = {row["split"]: row for row in rows if row["encoder"] == ours}
    for row in rows:
        if row["encoder"] in COMPARED[: COMPARED.index(ours) + 1] or row["split"] not in own:
            continue
        cells = (_difference(own[row["split"]]["ranks"], row["ranks"], k) for k in KS)
        yield f"| {row['encoder']} | {row['split']} | " + " | ".join(cells) + " |"


def other_sessions(rows: Sequence[Row]) -> Iterator[str]:
    """Floors of the sessions that no encoder learnt from, in the full pool."""
    yield from _head("encoder", *(f"@{k}" for k in KS))
    for row in rows:
        if row["split"] == "plain":
            yield f"| {row['encoder']} | {_cells(row['other']['all'], KS)} |"


def costs(rows: Sequence[Row], speeds: dict[str, float]) -> Iterator[str]:
    """Speed, size and time to train."""
    titles = ("dim", "queries/s, one core", "on disk, MB", "trained in, s (plain; leak-free)", "on")
    yield from _head("encoder", *titles)
    for row in rows:
        if row["split"] != "plain":
            continue
        same = [other for other in rows if other["encoder"] == row["encoder"]]
        spent = {other["split"]: f"{other['fit_s']:,.0f}" for other in same}
        trained = f"{spent['plain']}; {spent.get('leak-free', '–')}" if row["fit_s"] else "–"
        speed = speeds.get(row["encoder"], row["queries_per_s"])
        yield (
            f"| {row['encoder']} | {row['dim']} | {speed:,.0f} | {row['megabytes']:.1f} "
            f"| {trained} | {row['hardware'] if row['fit_s'] else '–'} |"
        )


def trainings(rows: Sequence[Row]) -> Iterator[str]:
    """The trainings on the GPU; `contrastive` starts from the result of `bert`."""
    titles = ("tokens/s", "GPU memory, MB", "held-out perplexity", "floor@250, validation")
    yield from _head("encoder", "split", "stage", "steps", *titles)
    for row in rows:
        for stage in row.get("training", {}).get("stages", [])[-1:]:
            curve = stage["curve"]
            guess = ""
            if curve[-1]["perplexity"] is not None:
                guess = f"{curve[0]['perplexity']:,.0f} → {curve[-1]['perplexity']:.1f}"
            kept = curve[-1] if stage["name"] == "masked-lm" else min(curve, key=_floor)
            yield (
                f"| {row['encoder']} | {row['split']} | {stage['name']} | {stage['steps']:,} "
                f"| {stage['tokens_per_second']:,.0f} | {stage['memory_mb'] or 0:,.0f} "
                f"| {guess} | {curve[0]['floor']:.3f} → {kept['floor']:.3f} |"
            )


def tables(lines: Iterable[str]) -> list[list[str]]:
    """Every table, as lines of Markdown."""
    read = [json.loads(line) for line in lines]
    rows = [row for row in read if "split" in row]
    speeds = {row["encoder"]: row["queries_per_s"] for row in read if "split" not in row}
    return [
        list(floors(rows)),
        *(list(paired(rows, ours)) for ours in COMPARED),
        list(other_sessions(rows)),
        list(costs(rows, speeds)),
        list(trainings(rows)),
    ]


def _head(*titles: str) -> Iterator[str]:
    yield "| " + " | ".join(titles) + " |"
    yield "|" + "---|" * len(titles)


def _floor(check: dict[str, Any]) -> float:
    return float(check["floor"])


def _cells(part: dict[str, list[float]], ks: Sequence[int]) -> str:
    return " | ".join("{:.3f} ({:.3f}–{:.3f})".format(*part[str(k)]) for k in ks)


def _difference(first: Sequence[int], second: Sequence[int], k: int) -> str:
    a, b = ((np.array(ranks) >= k).astype(np.float64) for ranks in (first, second))
    cell = "{:+.3f} [{:+.3f}, {:+.3f}]".format(*difference(a, b))
    return cell.replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description="Markdown from the rows of a comparison.")
    parser.add_argument("rows", type=Path, nargs="+")
    files = parser.parse_args().rows
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    print("\n\n".join("\n".join(table) for table in tables(lines)))


if __name__ == "__main__":
    main()
