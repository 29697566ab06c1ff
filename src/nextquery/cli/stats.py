"""`nextquery stats`: the statistics of a log or a pool."""

from pathlib import Path

from nextquery.cli import log_options as o
from nextquery.cli.output import Stages, print_json, print_report


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
