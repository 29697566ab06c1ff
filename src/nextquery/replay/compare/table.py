"""The table of a comparison, and its page in Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nextquery.policies.registry import SERVED
from nextquery.replay.compare import tuning
from nextquery.replay.compare.results import read_compared
from nextquery.replay.compare.verdict import verdict
from nextquery.replay.reporting.page import Block, Heading, Paragraph, Table, markdown
from nextquery.replay.reporting.stream_report import stream_note
from nextquery.replay.results import read_rows

HEADER = (
    *("recommender", "hit@1", "hit@5", "hit@10", "MRR@10", "less served, hit@10"),
    *("coverage", "train s", "serve ms", "serve MB"),
)
ABOUT = (
    "The fifth number is the paired difference of hit@10 to the served default, with a 95% "
    "interval over people. Coverage: the share of steps whose answer was a candidate. Training "
    "starts from a pool; its encoder is not counted. Times are those of the processor, one thread."
)


def compare_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table of the rows of ``compare.csv``."""
    return Table(HEADER, [_cells(row) for row in rows])


def comparison_page(run: Path) -> str:
    """Return the comparison of a run as Markdown, from its result files alone."""
    rows = read_compared(run)
    blocks: list[Block] = [
        Heading("Which recommender to use", 1),
        Paragraph(verdict(rows)),
        Paragraph(stream_note(run)),
        compare_table(rows),
        Paragraph(ABOUT),
        Paragraph(tuned_note(read_rows(run / tuning.FILE))),
    ]
    return markdown([block for block in blocks if block != Paragraph("")])


def tuned_note(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on what was tuned, and on what.

    >>> row = {"variant": "stan@session_days=30", "hit_at_10": "0.1", "steps": "9", "chosen": "1"}
    >>> tuned_note([{**row, "until": "2015-01-01T00:00:00+00:00"}])
    'Tuned on the 9 steps before 2015-01-01: stan@session_days=30.'
    """
    chosen = [row["variant"] for row in rows if row["chosen"] == "1"]
    if not chosen:
        return ""
    steps, until = int(rows[0]["steps"]), str(rows[0]["until"])[:10]
    return f"Tuned on the {steps:,} steps before {until}: {', '.join(chosen)}."


def _cells(row: Mapping[str, Any]) -> list[str]:
    hits = [f"{row[name]:.3f}" for name in ("hit_at_1", "hit_at_5", "hit_at_10", "mrr_at_10")]
    low, high = row["hit_at_10_low"], row["hit_at_10_high"]
    gap = f"{row['hit_at_10_less_served']:+.3f} [{low:+.3f}, {high:+.3f}]"
    return [
        str(row["recommender"]),
        *hits,
        "" if row["recommender"] == SERVED else gap,
        f"{row['coverage']:.3f}",
        f"{row['train_seconds']:.2f}",
        f"{row['serve_ms']:.2f}",
        f"{row['serve_mb']:.1f}",
    ]
