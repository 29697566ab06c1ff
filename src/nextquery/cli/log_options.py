"""The options about a log that `ingest`, `stats` and `train` share."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.logs import FORMATS, PROFILES

Log = Annotated[
    list[str],
    typer.Argument(
        help="Files or globs: CSV, TSV, JSONL, Parquet or UBI, plain, .gz or .zst; "
        "irds:NAME for a query log of ir_datasets; sample for the built-in one."
    ),
]
Session = Annotated[str | None, typer.Option(help="Column of the session id.")]
User = Annotated[str | None, typer.Option(help="Column of the user id.")]
Time = Annotated[str | None, typer.Option(help="Column of the time.")]
Query = Annotated[str | None, typer.Option(help="Column of the query.")]
Gap = Annotated[float, typer.Option(help="Minutes of inactivity that end a session.")]
Profile = Annotated[str, typer.Option(help=f"How to clean: {', '.join(PROFILES)}.")]
Skip = Annotated[list[str], typer.Option(help="A cleaning rule or pattern to switch off.")]
MinQueries = Annotated[int, typer.Option(help="Shortest session to keep.")]
MaxQueries = Annotated[int, typer.Option(help="Longest session to keep.")]
MaxChars = Annotated[int, typer.Option(help="Longer queries are dropped.")]
Language = Annotated[
    str | None, typer.Option(help="Drop sessions in another language, e.g. en (an extra).")
]
MinUsers = Annotated[
    int | None,
    typer.Option(help="An arm was issued by so many users (2 with a user column, else 1)."),
]
Blocklist = Annotated[
    Path | None, typer.Option(help="A file with one query per line that is never an arm.")
]
Format = Annotated[str | None, typer.Option(help=f"Of the files: {', '.join(FORMATS)}.")]
MemoryLimit = Annotated[str, typer.Option(help="What DuckDB may use before it spills to disk.")]
Threads = Annotated[int | None, typer.Option(help="Threads of DuckDB; all cores by default.")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with JSON.")]


def source(log: list[str]) -> list[str] | str:
    """What the readers take: the built-in sample by its name, a name of ir_datasets, or files."""
    from nextquery import datasets

    if len(log) == 1 and log[0].startswith("irds:"):
        return log[0]
    named = [name in datasets.NAMES and not Path(name).exists() for name in log]
    return [
        str(datasets.path(name)) if known else name for name, known in zip(log, named, strict=True)
    ]
