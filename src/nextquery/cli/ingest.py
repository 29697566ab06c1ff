"""`nextquery ingest`: make a pool from a raw log."""

import os
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import log_options as o
from nextquery.cli.cluster import Cluster, encoding_on, stdout_to_stderr
from nextquery.cli.output import Stages, err, print_json, print_report, size

_MANY = 0.05  # share of rows in another language above which a user should know it


def ingest(
    log: o.Log,
    to: Annotated[Path, typer.Option("--out", help="The pool folder to write.")],
    encoder: Annotated[
        str,
        typer.Option(
            help="auto, static, projected, tuned, lsa, word-vectors, sentence, or the folder of a "
            "saved encoder."
        ),
    ] = "auto",
    hold_out: Annotated[
        int,
        typer.Option(
            help="Number of newest sessions of two or more queries to hide from the encoder, for "
            "replays."
        ),
    ] = 0,
    personal: Annotated[
        bool,
        typer.Option(
            "--personal",
            help="Keep whose sessions they were, as keyed hashes, for people's own pasts. Needs "
            "the service's secret in NEXTQUERY_USER_HASH_SECRET.",
        ),
    ] = False,
    owner: Annotated[
        str,
        typer.Option(help="With --personal: the owner of the API keys that send these users' ids."),
    ] = "",
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    query: o.Query = None,
    hits: o.Hits = None,
    segment: o.Segment = None,
    gap: o.Gap = 30.0,
    profile: o.Profile = "text",
    skip: o.Skip = [],  # noqa: B006  (typer only reads it)
    min_queries: o.MinQueries = None,
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
    """Read a log, clean it, apply the privacy rules, encode its queries, and write a pool of arms.

    An older pool at --out is kept until the new one is complete. To resume an interrupted run, run
    the same command again.
    """
    from nextquery.errors import InvalidInput
    from nextquery.ingest import ingest as run
    from nextquery.logs import LogOptions
    from nextquery.personal import Personal

    if owner and not personal:
        raise InvalidInput(
            f"received --owner {owner!r} without --personal, so nobody's past would be kept. Add "
            "--personal, or leave --owner out."
        )
    files = o.source(log)
    options = LogOptions.of(
        files,
        session=session,
        user=user,
        time=time,
        query=query,
        hits=hits,
        segment=segment,
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
    encoding = encoding_on(cluster)
    people = None
    if personal:
        people = Personal(os.environ.get("NEXTQUERY_USER_HASH_SECRET", ""), owner)
    _plan(files, to, options.profile, encoder)
    with Stages() as stages, stdout_to_stderr():
        done = run(
            files,
            to,
            options,
            encoder=encoder,
            hold_out=hold_out,
            personal=people,
            progress=stages,
            **encoding,
        )
    report = {
        **done.report,
        "out": str(to),
        "seconds": {stage: round(s, 2) for stage, s in stages.seconds.items()},
        "resumed": list(done.resumed),
    }
    if as_json:
        print_json(report)
    else:
        print_report(report)
    _warn(report, to)


def _plan(files: list[str] | str, to: Path, profile: str, encoder: str) -> None:
    show = err().print
    if isinstance(files, str):
        show(f"reading {files} through ir_datasets")
    else:
        from nextquery.logs.reading.files import find

        log_files = find(files)
        total = sum(os.stat(file.path).st_size for file in log_files)
        show(
            f"reading {len(log_files)} file{'s' * (len(log_files) > 1)}, {size(total)} on disk",
            markup=False,
        )
    old = (
        ", replacing the old pool when the new one is complete"
        if (to / "manifest.json").exists()
        else ""
    )
    show(
        f"plan: clean ({profile}), apply the privacy rules, fit the encoder ({encoder}; tuned "
        f"takes minutes on a large log), encode, write {to}{old}",
        markup=False,
    )


def _warn(report: dict[str, object], to: Path) -> None:
    from nextquery.encode.scripts import doubt

    privacy, encoder = report["privacy"], report["encoder"]
    assert isinstance(privacy, dict)
    assert isinstance(encoder, dict)
    if words := doubt(encoder["name"], encoder["represented"]):
        err().print(f"[bold]unknown words:[/bold] {words}", soft_wrap=True)
    rules, counts = report["rules"], report["table2"]
    assert isinstance(rules, list)
    assert isinstance(counts, dict)
    foreign = sum(rule["removed"] for rule in rules if rule["name"] == "language")
    if foreign > _MANY * counts["queries (original)"]:
        err().print(
            f"[bold]other languages:[/bold] {foreign:,} rows were removed, since their sessions "
            "are not in the language of --language (en). Keep them with --language any.",
            soft_wrap=True,
        )
    if not privacy["k_anonymous"]:
        err().print(
            f"[bold]not k-anonymous:[/bold] a query of a single user may become an arm of {to} "
            "and be shown to others. Pass the log's user column (--user) and --min-users 2 or more."
        )
