"""The tables of docs/encoders.md from the rows that encoder_comparison.py wrote.

python -m benchmarks.encoder_tables ROWS.jsonl
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.encoder_floors import KS


def table(rows: Sequence[dict[str, Any]]) -> None:
    """Markdown from the result file alone."""

    def cells(part: dict[str, list[float]], ks: Sequence[int]) -> str:
        return " | ".join("{:.3f} ({:.3f}–{:.3f})".format(*part[str(k)]) for k in ks)

    head = " | ".join(f"@{k}" for k in KS)
    print(f"| encoder | split | {head} | unseen @250 |\n|---|---|" + "---|" * (len(KS) + 1))
    for row in rows:
        unseen = cells(row["unseen"], (250,)) if row["split"] == "plain" else "all are"
        print(f"| {row['encoder']} | {row['split']} | {cells(row['all'], KS)} | {unseen} |")
    plain = [row for row in rows if row["split"] == "plain"]
    print(f"\n| encoder | {head} |\n|---|" + "---|" * len(KS))
    for row in plain:
        print(f"| {row['encoder']} | {cells(row['other']['all'], KS)} |")
    print("\n| encoder | dim | trained in, s | on | queries/s, one core | on disk, MB |")
    print("|---|---|---|---|---|---|")
    for row in plain:
        print(
            f"| {row['encoder']} | {row['dim']} | {row['fit_s']:.0f} | {row['hardware']} "
            f"| {row['queries_per_s']:,.0f} | {row['megabytes']:.1f} |"
        )
    print("\n| encoder | split | stage | steps | tokens/s | GPU memory, MB | perplexity |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        for stage in row.get("training", {}).get("stages", []):
            guess = stage["curve"][-1]["perplexity"]
            print(
                f"| {row['encoder']} | {row['split']} | {stage['name']} | {stage['steps']:,} "
                f"| {stage['tokens_per_second']:,.0f} | {stage['memory_mb'] or 0:,.0f} "
                f"| {'–' if guess is None else f'{guess:.1f}'} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="Markdown from the rows of a comparison.")
    parser.add_argument("rows", type=Path, nargs="+")
    files = parser.parse_args().rows
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    table([json.loads(line) for line in lines])


if __name__ == "__main__":
    main()
