"""`nextquery ingest`: from a raw log to a pool."""

import os
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import log_options as o
from nextquery.cli.cluster import Cluster, encoding_on, notes_aside
from nextquery.cli.output import Stages, err, out, print_json, report_tables, size


def ingest(
    log: o.Log,
    to: Annotated[Path, typer.Option("--out", help="The pool folder to write.")],
    encoder: Annotated[
        str,
        typer.Option(
            help="auto, static, projected, tuned, lsa, sentence, or the folder of a saved one."
        ),
    ] = "auto",
    hold_out: Annotated[
        int,
        typer.Option(help="Newest sessions from which the encoder does not learn, for replays."),
    ] = 0,
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    query: o.Query = None,
    gap: o.Gap = 30.0,
    profile: o.Profile = "text",
    skip: o.Skip = [],  # noqa: B006  (typer reads it, nobody changes it)
    min_queries: o.MinQueries = 4,
    max_queries: o.MaxQueries = 50,
    max_chars: o.MaxChars = 1000,
    language: o.Language = None,
    min_users: o.MinUsers = None,
    blocklist: o.Blocklist = None,
    format: o.Format = None,
    memory_limit: o.MemoryLimit = "2GB",
    threads: o.Threads = None,
    cluster: Cluster = None,
    as_json: o.AsJson = False,
) -> None:
    """Read a log, clean and protect it, encode its queries, and write a pool of arms.

    An older pool at --out stands until the new one is whole. An interrupted run goes on where it
    stopped when it is started again.
    """
    from nextquery.ingest import ingest as run
    from nextquery.logs import LogOptions

    options = LogOptions(
        session=session,
        user=user,
        time=time,
        query=query,
        gap_minutes=gap,
        profile=profile,
        skip=tuple(skip),
        min_queries=min_queries,
        max_queries=max_queries,
        max_chars=max_chars,
        language=language,
        min_users=min_users,
        blocklist=blocklist,
        format=format,
        memory_limit=memory_limit,
        threads=threads,
    )
    files = o.source(log)
    how = encoding_on(cluster)
    _plan(files, to, options.profile, encoder)
    with Stages() as stages, notes_aside():
        done = run(files, to, options, encoder=encoder, hold_out=hold_out, progress=stages, **how)
    report = {
        **done.report,
        "out": str(to),
        "seconds": {stage: round(s, 2) for stage, s in stages.seconds.items()},
        "resumed": list(done.resumed),
    }
    if as_json:
        print_json(report)
    else:
        for made in report_tables(report):
            out().print(made)
    _warn(report, to)


def _plan(files: list[str] | str, to: Path, profile: str, encoder: str) -> None:
    say = err().print
    if isinstance(files, str):
        say(f"reading {files} through ir_datasets")
    else:
        from nextquery.logs.reading.files import find

        found = find(files)
        total = sum(os.stat(file.path).st_size for file in found)
        say(
            f"reading {len(found)} file{'s' * (len(found) > 1)}, {size(total)} on disk",
            markup=False,
        )
    old = (
        ", replacing the old pool once the new one is whole"
        if (to / "manifest.json").exists()
        else ""
    )
    say(
        f"plan: clean ({profile}), protect, fit the encoder ({encoder}; tuned takes minutes on a "
        f"large log), encode, write {to}{old}",
        markup=False,
    )


def _warn(report: dict[str, object], to: Path) -> None:
    privacy = report["privacy"]
    assert isinstance(privacy, dict)
    if not privacy["k_anonymous"]:
        err().print(
            f"[bold]not k-anonymous:[/bold] a query of a single user may be an arm of {to} and be "
            "shown to others. Give the log's user column (--user) and --min-users 2 or more."
        )
