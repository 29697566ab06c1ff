"""`nextquery reproduce`: every figure and table of the paper, in one command."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nextquery.cli import log_options as o
from nextquery.cli.cluster import Cluster, encoding_on, notes_aside, refuse_both, tasks_on
from nextquery.cli.output import Stages, err, out
from nextquery.cli.replay import Processes, Run, encoder_name, held_out_of, progress_of


def reproduce(
    to: Run,
    log: Annotated[
        str, typer.Argument(help="A log, a pool that ingest wrote, or sample for the built-in log.")
    ] = "sample",
    encoder: Annotated[
        str, typer.Option(help="As in ingest; a pool keeps the one it was made with.")
    ] = "auto",
    hold_out: Annotated[
        int,
        typer.Option(
            min=0,
            help="Newest sessions that the encoder of a LOG does not see; anchors come from them. "
            "(A pool was made with its own.)",
        ),
    ] = 1000,
    anchors: Annotated[int, typer.Option(min=1, help="Sampled sessions; 100 in the paper.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each; 1000 in the paper.")] = 1000,
    stream: Annotated[
        int, typer.Option(min=0, help="Last sessions to score in order of time; 0: none.")
    ] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of every random draw.")] = 0,
    processes: Processes = None,
    cluster: Cluster = None,
) -> None:
    """Repeat the paper's evaluation on a log and write the report: figures, tables, numbers.

    An interrupted run goes on where it stopped when it is started again with the same options.
    """
    from nextquery import replay
    from nextquery.arms import ArmPool

    refuse_both(cluster, processes)
    with Stages() as stages, notes_aside():
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
    log: str, to: Path, encoder: str, hold_out: int, how: dict[str, Any], stages: Stages
) -> Path:
    """The pool given, or one made of the log, once, inside the folder of the run."""
    import json

    from nextquery.errors import InvalidInput
    from nextquery.ingest import fingerprint, ingest
    from nextquery.logs import LogOptions
    from nextquery.replay.results import write_atomically

    if (Path(log) / "manifest.json").exists():
        return Path(log)
    source = o.source([log])
    made_from = [fingerprint(source, LogOptions()), encoder, hold_out]
    said = to / "made_from.json"
    if said.exists():
        if json.loads(said.read_text(encoding="utf-8")) != made_from:
            raise InvalidInput(
                f"{to} holds a run on another log, encoder or number of held-out sessions. Give "
                "the options it was started with, or name another --out."
            )
        if (to / "pool" / "manifest.json").exists():
            return to / "pool"
    to.mkdir(parents=True, exist_ok=True)
    write_atomically(said, json.dumps(made_from).encode())
    made = to / "pool"
    ingest(source, made, encoder=encoder, hold_out=hold_out, progress=stages, **how)
    return made
