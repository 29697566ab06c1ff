"""Options and steps that several commands share: of the log, the service and the cluster.

Options of the service are strings here, and the schema of the settings converts them. So an
invalid value gives the same error from an option, the environment or the file.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nextquery.service.log.writer import Write

import contextlib
import functools
import getpass
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from nextquery.cli.output import err
from nextquery.errors import InvalidInput
from nextquery.logs import FORMATS, PROFILES

if TYPE_CHECKING:
    from nextquery.research.replay.work import Each
    from nextquery.service.load_settings import LoadedSettings
    from nextquery.service.log.events import By
    from nextquery.service.log.store import Store
    from nextquery.service.log.writer import Write


Result = TypeVar("Result")


def this_user() -> "By":
    """Return who runs the command, as the operating system names them."""
    from nextquery.service.log.events import By

    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a number without a name
        name = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return By("command line", name)


def write_all(store: "Store", changes: Sequence["Write[Result]"]) -> list[Result]:
    """Write changes in order, and return what each returns; an error ends it."""
    from nextquery.service.log.store import Clock
    from nextquery.service.log.writer import Writer

    writer = Writer(store, Clock(), written=lambda: None)
    try:
        return [future.result() for future in writer.submit_many(list(changes))]
    finally:
        writer.close()


Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Ray cluster: host:port of its head node, auto for the Ray on this machine, "
        "or local to start one here.",
    ),
]


def check_not_both(cluster: str | None, processes: int | None) -> None:
    """Raise an error if both are given, before any cluster is joined."""
    if cluster is not None and processes is not None:
        raise InvalidInput(
            f"received --processes {processes} and --cluster {cluster}: processes run on this "
            "machine, and a cluster decides how many tasks it runs. Pass only one of them."
        )


@functools.cache
def join(address: str) -> None:
    """Connect to a cluster, and print its address once."""
    from nextquery.cluster import connect

    err().print(f"cluster: {connect(address)}", markup=False)


def stdout_to_stderr() -> "contextlib.redirect_stdout[TextIO]":
    """Send what Ray prints about dead workers to standard error; standard output is for results."""
    return contextlib.redirect_stdout(sys.stderr)


def encoding_on(cluster: str | None) -> dict[str, Any]:
    """Join the cluster, if any, before anything is read, and return the arguments for encoding."""
    if cluster is None:
        return {}
    join(cluster)
    from nextquery.cluster.tasks import on_ray

    return {"encode_blocks": on_ray}


def tasks_on(cluster: str | None, *, writes: Path, reads: Path) -> "Each | None":
    """Join the cluster and return what runs a replay's pieces there; None: this machine."""
    if cluster is None:
        return None
    join(cluster)
    from nextquery.cluster.tasks import TasksOnRay

    return TasksOnRay(writes, [reads / "manifest.json"])


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


Config = Annotated[
    Path | None,
    typer.Option(help="The configuration file; by default nextquery.toml in this folder, if any."),
]
StoreUrl = Annotated[
    str | None, typer.Option("--store", help="The event log: sqlite:///FILE or postgresql://…")
]
Set = Annotated[
    list[str],
    typer.Option(
        "--set", help="NAME=VALUE for any setting; repeatable. nextquery config show lists them."
    ),
]


def load_settings(
    options: Mapping[str, str | None], *, more: Iterable[str] = (), config: Path | None = None
) -> "LoadedSettings":
    """Load the settings from options, environment and file."""
    from nextquery.checks import installed
    from nextquery.errors import InvalidInput

    installed("service", "fastapi", "uvicorn", "sqlalchemy", "pydantic_settings", "limits")
    from nextquery.service.load_settings import load

    values, assigned = dict(options), set()
    for pair in more:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidInput(f"--set takes NAME=VALUE, like timeout_s=60; received {pair!r}.")
        assigned.add(name := name.strip().replace("-", "_"))
        values[name] = value
    return load(values, assigned=assigned, config=config)


def moment(text: str | None, option: str) -> float | None:
    """Return the Unix time of a moment as people write it, in UTC if it does not say."""
    from nextquery.errors import InvalidInput

    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{option} must be a date or a time like 2026-03-01T12:00; received {text!r}."
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
