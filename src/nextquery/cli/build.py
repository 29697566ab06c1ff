"""Commands that build and check pools: ingest a log, encode again, show statistics, verify."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli import options as o
from nextquery.cli import output
from nextquery.cli.options import Cluster, encoding_on, stdout_to_stderr
from nextquery.cli.output import Stages, err, out, print_json, print_report, size

if TYPE_CHECKING:
    from nextquery.build.ingest import Personal


def encode(
    pool: Annotated[Path, typer.Argument(metavar="POOL", help="A pool that ingest wrote.")],
    encoder: Annotated[
        str,
        typer.Option(
            help="auto, static, projected, tuned, lsa, word-vectors, sentence (fitted on the log "
            "that the pool has now), or the folder of a saved encoder."
        ),
    ] = "auto",
    cluster: Cluster = None,
    as_json: o.AsJson = False,
) -> None:
    """Encode the queries of a pool anew: ids, counts and sessions stay.

    The old pool is kept until the new one is complete. Running services take it over.
    """
    from nextquery.build.reencode import reencode

    err().print(f"plan: fit the encoder ({encoder}), encode, write {pool}", markup=False)
    with Stages() as stages, stdout_to_stderr():
        done = reencode(pool, encoder, progress=stages, **encoding_on(cluster))
    arms, name = len(done.pool), done.report["encoder"]["name"]
    if as_json:
        seconds = {stage: round(s, 2) for stage, s in stages.seconds.items()}
        about = {"encoder": done.report["encoder"], "seconds": seconds}
        print_json({"out": str(pool), "arms": arms, "unplaced": done.unplaced, **about})
        return
    err().print(
        f"{pool} has {arms:,} arms with vectors of {name}; it cannot place {done.unplaced:,} "
        "queries, which are no arms until an encoder can",
        markup=False,
        soft_wrap=True,
    )


_MANY = 0.05  # share of rows in another language above which a user should know it


def ingest(
    context: typer.Context,
    log: o.Log,
    to: Annotated[Path, typer.Option("--out", help="The pool folder to write.")],
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Add LOG, new days without rows of earlier ones, to the pool at --out: ids stay, "
            "and so do the encoder and all other options.",
        ),
    ] = False,
    encoder: Annotated[
        str,
        typer.Option(
            autocompletion=output.encoders,
            help="auto, static, projected, tuned, lsa, word-vectors, sentence, or the folder of a "
            "saved encoder.",
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
    time_format: o.TimeFormat = None,
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
    the same command again. With NEXTQUERY_USER_HASH_SECRET set, the pool remembers what its rules
    held back, as keyed hashes, so that --update gives what all days at once would.
    """
    from nextquery.build.ingest import Personal
    from nextquery.build.ingest import ingest as run
    from nextquery.errors import InvalidInput
    from nextquery.logs import LogOptions

    if owner and not personal:
        raise InvalidInput(
            f"received --owner {owner!r} without --personal, so nobody's past would be kept. Add "
            "--personal, or leave --owner out."
        )
    files = o.source(log)
    secret = os.environ.get("NEXTQUERY_USER_HASH_SECRET", "")
    people = Personal(secret, owner) if personal else None
    given = {
        "session": session,
        "user": user,
        "time": time,
        "time_format": time_format,
        "query": query,
        "hits": hits,
        "segment": segment,
        "gap_minutes": gap,
        "profile": profile,
        "skip": tuple(skip),
        "min_queries": min_queries,
        "max_queries": max_queries,
        "max_chars": max_chars,
        "language": language,
        "min_users": min_users,
        "blocklist": blocklist,
        "format": format,
        "memory_limit": memory_limit,
        "threads": threads,
    }
    encoding = encoding_on(cluster)
    if update:
        _update(
            context, files, to, given, secret=secret, people=people, as_json=as_json, **encoding
        )
        return
    options = LogOptions.of(files, **given)
    _plan(files, to, options.profile, encoder)
    with Stages() as stages, stdout_to_stderr():
        done = run(
            files,
            to,
            options,
            encoder=encoder,
            hold_out=hold_out,
            personal=people,
            secret=secret,
            progress=stages,
            **encoding,
        )
    _print(done.report, to, stages, as_json=as_json, resumed=list(done.resumed))
    _warn(done.report, to)


def _update(
    context: typer.Context,
    files: list[str] | str,
    to: Path,
    options: dict[str, Any],
    *,
    secret: str,
    people: "Personal | None",
    as_json: bool,
    **encoding: Any,
) -> None:
    """Add new days to the pool; only options that were given count."""
    from nextquery.build.update import update
    from nextquery.errors import InvalidInput

    for name in ("encoder", "hold_out"):
        if _given(context, name):
            option = name.replace("_", "-")
            raise InvalidInput(
                f"received --{option} with --update: the encoder of a pool is not fitted again. "
                f"Leave --{option} out, or ingest the whole log into a new pool."
            )
    names = {"gap_minutes": "gap"}
    given = {n: value for n, value in options.items() if _given(context, names.get(n, n))}
    what = "all days" if secret else "these days alone"
    err().print(f"plan: clean, apply the privacy rules to {what}, encode new queries, add to {to}")
    with Stages() as stages, stdout_to_stderr():
        done = update(files, to, given, secret=secret, personal=people, progress=stages, **encoding)
    grew = {"added": done.added, "removed": done.removed, "notes": list(done.notes)}
    _print(done.report, to, stages, as_json=as_json, **grew)
    err().print(
        f"{to} has {done.added:,} new arms and {len(done.pool):,} in all; {done.removed:,} are no "
        "longer arms",
        markup=False,
        soft_wrap=True,
    )
    for note in done.notes:
        err().print(f"note: {note}", markup=False, soft_wrap=True)


def _given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, and is not the default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _print(
    about: Mapping[str, Any], to: Path, stages: Stages, *, as_json: bool, **more: object
) -> None:
    seconds = {stage: round(s, 2) for stage, s in stages.seconds.items()}
    report = {**about, "out": str(to), "seconds": seconds, **more}
    if as_json:
        print_json(report)
    else:
        print_report(report)


def _plan(files: list[str] | str, to: Path, profile: str, encoder: str) -> None:
    show = err().print
    if isinstance(files, str):
        show(f"reading {files} through ir_datasets")
    else:
        from nextquery.logs.files import files_of

        log_files = files_of(files)
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


def _warn(report: Mapping[str, object], to: Path) -> None:
    from nextquery.encode.tokens import doubt

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


def stats(
    log: o.Log,
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    time_format: o.TimeFormat = None,
    query: o.Query = None,
    hits: o.Hits = None,
    segment: o.Segment = None,
    gap: o.Gap = 30.0,
    profile: o.Profile = "text",
    skip: o.Skip = [],  # noqa: B006
    min_queries: o.MinQueries = None,
    max_queries: o.MaxQueries = 50,
    max_chars: o.MaxChars = 1000,
    language: o.Language = None,
    format: o.Format = None,
    memory_limit: o.MemoryLimit = "2GB",
    threads: o.Threads = None,
    as_json: o.AsJson = False,
) -> None:
    """Show the statistics of a log (the paper's Table 3) or of a pool folder."""
    from nextquery.logs import LogOptions, stats_of

    if len(log) == 1 and Path(log[0]).is_dir():
        report = _of_pool(log[0])
    else:
        files = o.source(log)
        options = LogOptions.of(
            files,
            session=session,
            user=user,
            time=time,
            time_format=time_format,
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
            format=format,
            memory_limit=memory_limit,
            threads=threads,
        )
        with Stages() as stages:
            report = stats_of(files, options, progress=stages).to_dict()
    if as_json:
        print_json(report)
    else:
        print_report(report)


def _of_pool(path: str) -> dict[str, object]:
    from nextquery.arms import ArmPool
    from nextquery.errors import InvalidInput

    pool = ArmPool.open(path)
    if pool.origin is None:
        raise InvalidInput(
            f"{path} is a pool of {len(pool)} arms that was not made from a log, so it has no "
            "statistics. Pass a log, or a pool that ingest wrote."
        )
    return dict(pool.origin.report)


_BUILT_BY = {
    "nextquery pool": "nextquery ingest",
    "nextquery encoder": "nextquery train",
    "nextquery recommender": "Recommender.save",
}


def verify(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A pool, an encoder or a recommender that nextquery wrote."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check every byte of a folder against its manifest.

    Exits with 0 if all is well, and with 4 if anything is damaged, missing or not readable.
    """
    from nextquery import folders
    from nextquery.errors import Damaged

    kind, opened = folders.read_any(folder)
    problems = opened.problems()
    total = sum(int(entry["bytes"]) for entry in opened.files.values())
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "kind": kind,
                "files": len(opened.files),
                "bytes": total,
                "ok": not problems,
                "damaged": problems,
            }
        )
    elif not problems:
        out().print(f"{folder} is intact: a {kind}, {len(opened.files)} files, {size(total)}")
    if problems:
        listed = "".join(f"\n  {name}: {problem}" for name, problem in problems.items())
        raise Damaged(
            f"{folder} is damaged: {len(problems)} of {len(opened.files)} files.{listed}\nDo not "
            f"serve it. Restore the folder from a backup, or build it again with "
            f"{_BUILT_BY.get(kind, 'the command that wrote it')}. Then check the disk: files do "
            "not change by themselves."
        )
