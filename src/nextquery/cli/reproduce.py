"""`nextquery reproduce`: make every figure and table of the paper in one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nextquery.cli import log_options as o
from nextquery.cli.cluster import Cluster, check_not_both, encoding_on, stdout_to_stderr, tasks_on
from nextquery.cli.output import Stages, err, out
from nextquery.cli.replay import (
    Processes,
    Run,
    encoder_name,
    held_out_of,
    note_fewer_anchors,
    progress_of,
)

if TYPE_CHECKING:
    from nextquery.build.ingest import Personal


def reproduce(
    to: Run,
    log: Annotated[
        str,
        typer.Argument(help="A log, a pool that ingest wrote, or a built-in log: topics or core."),
    ] = "topics",
    encoder: Annotated[
        str,
        typer.Option(
            help="As in ingest: a name, or the folder that train wrote. A pool keeps its own."
        ),
    ] = "auto",
    session: o.Session = None,
    user: o.User = None,
    time: o.Time = None,
    time_format: o.TimeFormat = None,
    query: o.Query = None,
    hold_out: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of newest sessions of two or more queries to hide from the encoder of a "
            "log; anchors come from them. A pool keeps its own number.",
        ),
    ] = 1000,
    anchors: Annotated[
        int, typer.Option(min=1, help="Sessions to sample; 100 in the paper.")
    ] = 300,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds per anchor; 1000 in the paper.")
    ] = 1000,
    stream: Annotated[
        int, typer.Option(min=0, help="Score since the last so many sessions began; 0: no stream.")
    ] = 500,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the anchors, the policies and the stream.")
    ] = 0,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, help="Average the policies over so many seeds, on the same anchors (anchored)."
        ),
    ] = 5,
    zooming: Annotated[
        float,
        typer.Option(
            min=-1, max=1, help="Similarity threshold of zooming; higher if most arms reach it."
        ),
    ] = 0.5,
    processes: Processes = None,
    cluster: Cluster = None,
) -> None:
    """Repeat the paper's evaluation on a log and write the report: figures, tables, numbers.

    To resume an interrupted run, run the same command again.
    """
    from nextquery.arms import ArmPool
    from nextquery.research import replay

    check_not_both(cluster, processes)
    with Stages() as stages, stdout_to_stderr():
        columns = {"session": session, "user": user, "time": time, "query": query}
        columns["time_format"] = time_format
        folder = pool_of(log, to, encoder, hold_out, encoding_on(cluster), stages, columns)
        pool = ArmPool.open(folder)
        if note := saw_anchors(encoder, held_out_of(pool)):
            err().print(note, markup=False, soft_wrap=True)
        past = replay.sessions_of(pool)
        note_fewer_anchors(past, anchors, held_out_of(pool))
        page = replay.reproduce(
            pool,
            past,
            to,
            anchors=anchors,
            rounds=rounds,
            stream_sessions=stream,
            encoder=encoder_name(pool),
            held_out=held_out_of(pool),
            seed=seed,
            seeds=seeds,
            zooming=zooming,
            processes=processes,
            each=tasks_on(cluster, writes=to, reads=folder),
            progress=progress_of(stages),
        )
    out().print(str(page), markup=False, soft_wrap=True)
    err().print(f"figures and tables: {page.parent}", markup=False, soft_wrap=True)


def pool_of(
    log: str,
    to: Path,
    encoder: str,
    hold_out: int,
    encoding: dict[str, Any],
    stages: Stages,
    columns: dict[str, str | None] | None = None,
) -> Path:
    """Return the given pool, or one made from the log, once, inside the folder of the run.

    `columns` are the names of a log's columns, as options of `LogOptions`.
    """
    import json
    import shutil

    from nextquery.build.ingest import ingest
    from nextquery.build.stages import fingerprint
    from nextquery.errors import InvalidInput
    from nextquery.logs import LogOptions
    from nextquery.research.replay.results import write_atomically

    if (Path(log) / "manifest.json").exists():
        return Path(log)
    source = o.source([log])
    options = LogOptions.of(source, **columns or {})
    made_from = [fingerprint(source, options), encoder, hold_out]
    record = to / "made_from.json"
    if record.exists():
        if json.loads(record.read_text(encoding="utf-8")) != made_from:
            raise InvalidInput(
                f"{to} contains a run on another log, encoder or number of held-out sessions. Use "
                "the options it was started with, or another --out."
            )
        if (to / "pool" / "manifest.json").exists():
            return to / "pool"
    new = not to.exists()
    to.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(made_from).encode())
    pool, secret = to / "pool", to / ".people-secret"
    how: dict[str, Any] = {"encoder": encoder, "hold_out": hold_out, "personal": _people(secret)}
    try:
        ingest(source, pool, options, progress=stages, **how, **encoding)
    except InvalidInput:  # a log that cannot be read leaves nothing
        record.unlink()
        secret.unlink()
        if new:
            shutil.rmtree(to)
        raise
    secret.unlink()
    return pool


def saw_anchors(encoder: str, last: int) -> str:
    """Return a note if a trained encoder has seen sessions that anchors are drawn from."""
    import json

    from nextquery.build.train import REPORT

    report = Path(encoder) / REPORT
    if not report.is_file():
        return ""
    left_out = int(json.loads(report.read_text(encoding="utf-8")).get("hold_out", 0))
    if left_out >= last:
        return ""
    return (
        f"note: {encoder} was trained without the newest {left_out:,} sessions, and anchors come "
        f"from the newest {last:,}, so it has seen some answers. Train it with the same --hold-out."
    )


def _people(file: Path) -> "Personal":
    """Keep whose sessions they were, under a secret that is deleted when the pool is complete.

    Then nobody can be recognised in it, but people's own pasts can be replayed. Until then the
    secret stays in a file, so that an interrupted run can resume.
    """
    import secrets

    from nextquery.build.ingest import Personal

    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(32), encoding="utf-8")
    return Personal(file.read_text(encoding="utf-8"), required=False)
