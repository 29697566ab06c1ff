"""Output of the commands: tables, JSON, progress on standard error, and shell completion.

Registries of names are loaded only when a shell asks for a completion.
"""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, TextIO

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from nextquery import datasets
from nextquery.errors import NextqueryError, StorageError


def policies() -> list[str]:
    """Return every policy and rival that a replay knows."""
    from nextquery.policies.registry import POLICIES
    from nextquery.research.rivals.registry import RIVALS, TRAINED

    return [*POLICIES, *RIVALS, *TRAINED]


def served_policies() -> list[str]:
    """Return the policies that can learn from users."""
    from nextquery.policies.registry import LIVE

    return list(LIVE)


def selections() -> list[str]:
    """Return the selections."""
    from nextquery.policies.registry import SELECTIONS

    return list(SELECTIONS)


def schedules() -> list[str]:
    """Return the schedules by which a candidate set grows."""
    from nextquery.policies.registry import SCHEDULES

    return ["none", *SCHEDULES]


def readings() -> list[str]:
    """Return the readings of the preference."""
    from nextquery.selection.preference import READINGS

    return list(READINGS)


def encoders() -> list[str]:
    """Return the encoders that `ingest` fits."""
    from nextquery.encode.auto import ENCODERS

    return ["auto", *ENCODERS]


BAD_INPUT, BAD_FILES = 3, 4


def exit_code(error: NextqueryError) -> int:
    """Return 3 for invalid input, 4 for files that cannot be read or written."""
    return BAD_FILES if isinstance(error, StorageError) else BAD_INPUT


def out() -> Console:
    """Standard output, for results."""
    return _console(sys.stdout)


def err() -> Console:
    """Standard error, for everything else."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else 120  # a file has no width
    return Console(file=stream, highlight=False, width=width)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
) -> Table:
    """Return a table; the columns `numbers` are right-aligned."""
    made = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for i, column in enumerate(columns):
        made.add_column(column, justify="right" if i in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(_cell(value) for value in row))
    return made


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


class Stages:
    """Shows the stages of a long task: progress bars on a terminal, plain lines otherwise."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._live = sys.stderr.isatty()
        self._bars = Progress(
            TextColumn("{task.description:<34}"),
            BarColumn(),
            TaskProgressColumn(show_speed=True),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=err(),
            disable=not self._live,
        )
        self._tasks: dict[str, TaskID] = {}
        self._began: dict[str, float] = {}

    def __enter__(self) -> "Stages":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            err().print(
                "interrupted; existing files are unchanged. Run the same command again to resume."
            )

    def ask(self, question: str) -> bool:
        """Ask a yes-or-no question on the terminal, without bars around it."""
        self._bars.stop()
        yes = typer.confirm(question, err=True)
        self._bars.start()
        return yes

    def __call__(self, stage: str, done: float | None) -> None:
        """Report that a stage has started (None) or its share done (0 to 1)."""
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=None)
            self._began[stage] = time.perf_counter()
        if done is not None:
            self._bars.update(self._tasks[stage], total=1.0, completed=done)
        if done == 1.0 and stage not in self.seconds:
            self.seconds[stage] = time.perf_counter() - self._began[stage]
            if not self._live:
                print(f"{stage}: done in {self.seconds[stage]:.1f} s", file=sys.stderr, flush=True)


def size(count: float) -> str:
    """Format a number of bytes.

    >>> size(1536)
    '1.5 KB'
    """
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TB"


_TABLE2 = (
    "queries (original)",
    "queries (pre-processed)",
    "sessions",
    "average queries per session",
    "distinct queries",
)


def print_report(report: Mapping[str, Any]) -> None:
    """Print the report of `ingest` or `stats`: what a built-in log is, then tables."""
    built_in = datasets.LOGS.get(report["log"])
    if built_in is not None:
        out().print(f"{report['log']}: {built_in.about}", markup=False, soft_wrap=True)
    for made_table in _tables(report):
        out().print(made_table)


def _tables(report: Mapping[str, Any]) -> list[Table]:
    counts = sorted(report["table2"].items(), key=lambda row: _TABLE2.index(row[0]))
    tables = [table("The log (Table 3)", ["", "count"], counts, numbers=[1])]
    rules = [(r["name"], r["does"], r["removed"], r["option"]) for r in report["rules"] if r["on"]]
    tables.append(
        table("Cleaning", ["rule", "what it does", "rows removed", "option"], rules, numbers=[2])
    )
    if "privacy" in report:
        gates = [
            (g["name"], g["does"], g["arms"], f"{g['share']:.1%}", g["option"])
            for g in report["privacy"]["gates"]
            if g["on"]
        ]
        columns = ["gate", "removes", "arms removed", "share", "option"]
        tables.append(table("Privacy", columns, gates, numbers=[2, 3]))
    malformed = report["malformed"]
    if malformed["rows"]:
        rows = [(f"{p['file']}:{p['line']}", p["why"]) for p in malformed["first"]]
        title = f"Malformed rows: {malformed['rows']:,}, not used. The first:"
        tables.append(table(title, ["where", "why"], rows))
    if "pool" in report:
        pool = dict(report["pool"])
        if "encoder" in report:
            pool["encoder"] = f"{report['encoder']['name']}, {report['encoder']['dim']} dimensions"
            pool["queries without a known word (no arms)"] = report["encoder"]["unplaced"]
        tables.append(table("The pool", ["", ""], pool.items(), numbers=[1]))
    return tables
