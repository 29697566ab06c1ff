"""`nextquery explore`: mark rows of a table, get the WHERE clause that finds such rows."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.syntax import Syntax

from nextquery.cli.output import err, out, print_json, table
from nextquery.errors import InvalidInput

if TYPE_CHECKING:
    from nextquery.explore import Exploration

_HELP = (
    "Type the numbers of the rows that are relevant, like 1 3. Enter: none of them. "
    "u: take the last answer back. q: stop."
)
_WIDEST = 40  # characters of a value


def explore(
    file: Annotated[
        Path, typer.Argument(metavar="TABLE", help="A CSV, TSV, Parquet or DuckDB file.")
    ],
    table: Annotated[
        str | None, typer.Option(help="The table of a DuckDB file that has more than one.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns for the conditions, like price,city; by default all usable."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(help="Keep the answers in this file, and continue from it if it exists."),
    ] = None,
    samples: Annotated[int, typer.Option(help="Rows per round.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the rows that are drawn.")] = 0,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Take answers from this CSV file with the columns row and relevant (1 or 0) "
            "instead of asking; rows count from 0."
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Do not ask: print the clause and the next rows as JSON."),
    ] = False,
) -> None:
    """Show a few rows of TABLE; mark what is relevant; get the SQL WHERE clause that finds it.

    Each round learns from the marks and chooses the next rows: of parts of the table not seen yet,
    around rows that the decision tree gets wrong, and at the borders of what it calls relevant.
    """
    from nextquery.explore import Exploration, Table

    began = time.perf_counter()
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    opened = Table.open(file, table=table, columns=names)
    if state is not None and state.exists():
        exploration = Exploration.resume(state, opened)
        kept = {"samples": exploration.batch, "seed": exploration.seed}
        given = {"samples": samples, "seed": seed}
        for option, default in (("samples", 10), ("seed", 0)):
            if given[option] not in (default, kept[option]):
                raise InvalidInput(
                    f"--{option} {given[option]}: {state} has {kept[option]}. Leave the option "
                    "out, or pass another --state."
                )
    else:
        exploration = Exploration(opened, samples=samples, seed=seed)
    _report(exploration, file, time.perf_counter() - began)
    if labels is not None:
        exploration.add(_labels_in(labels))
        _save(exploration, state)
    if as_json:
        print_json(_as_json(exploration))
    elif labels is not None:
        _answer(exploration)
    else:
        _ask(exploration, state)


def _report(exploration: "Exploration", file: Path, seconds: float) -> None:
    used = ", ".join(column.name for column in exploration.table.columns)
    err().print(
        f"{file}: {len(exploration.table):,} rows, read in {seconds:.1f} s. Columns: {used}.",
        markup=False,
        soft_wrap=True,
    )
    for name, why in exploration.table.left_out.items():
        err().print(f"not used: {name}, because {why}", markup=False, soft_wrap=True)
    if exploration.labels:
        err().print(f"continued with {exploration.labels:,} labels")


def _labels_in(path: Path) -> dict[int, bool]:
    """Return the labels in a CSV file."""
    import csv

    marks = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    found: dict[int, bool] = {}
    with open(path, encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        if not {"row", "relevant"} <= set(reader.fieldnames or ()):
            raise InvalidInput(
                f"{path} has the columns {', '.join(reader.fieldnames or ['(none)'])}. It needs "
                "row and relevant."
            )
        for line in reader:
            row, mark = str(line["row"]).strip(), str(line["relevant"]).strip().lower()
            if not row.isdecimal() or mark not in marks:
                raise InvalidInput(
                    f"{path} line {reader.line_num}: received row {row!r}, relevant {mark!r}. Use "
                    "a row number from 0, and 1 or 0."
                )
            found[int(row)] = marks[mark]
    return found


def _as_json(exploration: "Exploration") -> dict[str, Any]:
    return {
        "where": exploration.where(),
        "sql": exploration.sql(),
        "rows_selected": exploration.count(),
        "rows": len(exploration.table),
        "labels": exploration.labels,
        "relevant": exploration.relevant,
        "left_out": exploration.table.left_out,
        "next": [sample._asdict() for sample in exploration.samples()],
    }


def _ask(exploration: "Exploration", state: Path | None) -> None:
    """Ask round by round until the person stops."""
    err().print(_HELP, markup=False)
    while shown := exploration.samples():
        names = exploration.table.names
        rows = [
            [i, *(_value(sample.values[name]) for name in names), sample.phase]
            for i, sample in enumerate(shown, 1)
        ]
        out().print(table(f"{exploration.labels:,} labels", ["", *names, "why"], rows, numbers=[0]))
        answer = _answered(len(shown))
        if answer is None:
            break
        if isinstance(answer, str):
            if not exploration.undo():
                err().print("there is no answer to take back.")
                continue
        else:
            exploration.label([shown[at - 1].row for at in answer])
        _save(exploration, state)
        _answer(exploration)
    else:
        err().print("every row is labelled.")
    if exploration.labels:
        out().print(exploration.sql(), markup=False, soft_wrap=True)
    if state is not None and exploration.labels:
        err().print(f"kept in {escape(str(state))}; the same command continues.")


def _answered(most: int) -> list[int] | str | None:
    """Return the numbers that were typed, ``undo``, or None to stop."""
    while True:
        print("relevant: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        typed = line.strip().lower().replace(",", " ")
        if not line or typed in ("q", "quit", "exit"):
            return None
        if typed in ("u", "undo"):
            return "undo"
        words = [] if typed in ("", "none") else typed.split()
        if all(word.isdecimal() and 1 <= int(word) <= most for word in words):
            return [int(word) for word in words]
        err().print(f"received {typed!r}. Use numbers from 1 to {most}. {_HELP}", markup=False)


def _answer(exploration: "Exploration") -> None:
    if not exploration.relevant:
        err().print(f"{exploration.labels:,} labels, none relevant yet.")
        return
    out().print(Syntax(exploration.where(), "sql", background_color="default", word_wrap=True))
    err().print(
        f"selects {exploration.count():,} of {len(exploration.table):,} rows; "
        f"{exploration.relevant:,} of {exploration.labels:,} labels are relevant"
    )


def _save(exploration: "Exploration", state: Path | None) -> None:
    if state is not None:
        exploration.save(state)


def _value(value: Any) -> str:
    if value is None:
        return "–"
    text = f"{value:,.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
