"""The log options shared by `ingest`, `stats` and `train`."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.logs import FORMATS, PROFILES

Log = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        autocompletion=lambda: ["topics", "core"],
        help="Files or globs (CSV, TSV, JSONL, Parquet or UBI, plain, .gz or .zst), irds:NAME for "
        "a query log of ir_datasets, or a built-in log: topics or core.",
    ),
]
Session = Annotated[
    str | None, typer.Option(help="Name of the session id column; detected by default.")
]
User = Annotated[str | None, typer.Option(help="Name of the user id column; detected by default.")]
Time = Annotated[str | None, typer.Option(help="Name of the time column; detected by default.")]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        help="How times are written, such as '%d.%m.%Y %H:%M:%S'; by default ISO 8601 or unix time."
    ),
]
Query = Annotated[str | None, typer.Option(help="Name of the query column; detected by default.")]
Hits = Annotated[
    str | None,
    typer.Option(help="Name of the column with the number of results; detected by default."),
]
Segment = Annotated[
    str | None,
    typer.Option(
        help="Name of the column with the segment of each row, such as its language or tenant: no "
        "segment ever sees a query of another. By default there are none."
    ),
]
Gap = Annotated[float, typer.Option(help="Minutes of inactivity that end a session.")]
Profile = Annotated[
    str,
    typer.Option(
        autocompletion=lambda: list(PROFILES), help=f"Cleaning rules: {' or '.join(PROFILES)}."
    ),
]
Skip = Annotated[
    list[str],
    typer.Option(help="Name of a cleaning rule or privacy pattern to switch off; repeatable."),
]
MinQueries = Annotated[
    int | None,
    typer.Option(help="Shortest session to keep, in queries; by default 4, or 1 for topics."),
]
MaxQueries = Annotated[int, typer.Option(help="Longest session to keep, in queries.")]
MaxChars = Annotated[int, typer.Option(help="Longest query to keep, in characters.")]
Language = Annotated[
    str | None,
    typer.Option(
        help="Language of the sessions to keep, such as en (the default for text) or de; any keeps "
        "every language and script."
    ),
]
MinUsers = Annotated[
    int | None,
    typer.Option(
        help="Users who must have issued a query for it to become an arm; by default 2, or 1 "
        "without a user column."
    ),
]
Blocklist = Annotated[
    Path | None, typer.Option(help="A file of queries that never become arms, one per line.")
]
Format = Annotated[
    str | None,
    typer.Option(
        autocompletion=lambda: list(FORMATS),
        help=f"Format of the files: {', '.join(FORMATS)}; detected by default.",
    ),
]
MemoryLimit = Annotated[
    str, typer.Option(help="Memory that DuckDB may use before it spills to disk.")
]
Threads = Annotated[int | None, typer.Option(help="DuckDB threads; all cores by default.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def source(log: list[str]) -> list[str] | str:
    """Return the source to read: files (built-in logs by their paths), or an irds: name."""
    from nextquery import datasets

    if len(log) == 1 and log[0].startswith("irds:"):
        return log[0]
    return [str(datasets.file_of(name) or name) for name in log]
