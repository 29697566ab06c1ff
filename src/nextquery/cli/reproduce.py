"""`nextquery reproduce`: make every figure and table of the paper in one command."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nextquery.cli import log_options as o
from nextquery.cli.cluster import Cluster, check_not_both, encoding_on, stdout_to_stderr, tasks_on
from nextquery.cli.output import Stages, err, out
from nextquery.cli.replay import Processes, Run, encoder_name, held_out_of, progress_of


def reproduce(
    to: Run,
    log: Annotated[
        str, typer.Argument(help="A log, a pool that ingest wrote, or sample for the built-in log.")
    ] = "sample",
    encoder: Annotated[
        str, typer.Option(help="As in ingest; a pool keeps its own encoder.")
    ] = "auto",
    hold_out: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of newest sessions to hide from the encoder of a log; anchors come from "
            "them. A pool keeps its own number.",
        ),
    ] = 1000,
    anchors: Annotated[
        int, typer.Option(min=1, help="Sessions to sample; 100 in the paper.")
    ] = 300,
    rounds: Annotated[
        int, typer.Option(min=1, help="Rounds per anchor; 1000 in the paper.")
    ] = 1000,
    stream: Annotated[
        int, typer.Option(min=0, help="Last sessions to score in order of time; 0 for none.")
    ] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    processes: Processes = None,
    cluster: Cluster = None,
) -> None:
    """Repeat the paper's evaluation on a log and write the report: figures, tables, numbers.

    To resume an interrupted run, run the same command again.
    """
    from nextquery import replay
    from nextquery.arms import ArmPool

    check_not_both(cluster, processes)
    with Stages() as stages, stdout_to_stderr():
        folder = _pool(log, to, encoder, hold_out, encoding_on(cluster), stages)
        pool = ArmPool.open(folder)
        page = replay.reproduce(
            pool,
            replay.sessions_of(pool),
            to,
            anchors=anchors,
            rounds=rounds,
            stream_sessions=stream,
            encoder=encoder_name(pool),
            held_out=held_out_of(pool),
            seed=seed,
            processes=processes,
            each=tasks_on(cluster, writes=to, reads=folder),
            progress=progress_of(stages),
        )
    out().print(str(page), markup=False, soft_wrap=True)
    err().print(f"figures and tables: {page.parent}", markup=False, soft_wrap=True)


def _pool(
    log: str, to: Path, encoder: str, hold_out: int, encoding: dict[str, Any], stages: Stages
) -> Path:
    """Return the given pool, or one made from the log, once, inside the folder of the run."""
    import json

    from nextquery.errors import InvalidInput
    from nextquery.ingest import fingerprint, ingest
    from nextquery.logs import LogOptions
    from nextquery.replay.results import write_atomically

    if (Path(log) / "manifest.json").exists():
        return Path(log)
    source = o.source([log])
    made_from = [fingerprint(source, LogOptions()), encoder, hold_out]
    record = to / "made_from.json"
    if record.exists():
        if json.loads(record.read_text(encoding="utf-8")) != made_from:
            raise InvalidInput(
                f"{to} contains a run on another log, encoder or number of held-out sessions. Use "
                "the options it was started with, or another --out."
            )
        if (to / "pool" / "manifest.json").exists():
            return to / "pool"
    to.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(made_from).encode())
    pool = to / "pool"
    ingest(source, pool, encoder=encoder, hold_out=hold_out, progress=stages, **encoding)
    return pool
