"""`nextquery reproduce`: every figure and table of the paper, in one command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nextquery.cli import log_options as o
from nextquery.cli.output import Stages, err, out
from nextquery.cli.replay import Processes, Run, encoder_name, progress_of

if TYPE_CHECKING:
    from nextquery.arms import ArmPool


def reproduce(
    to: Run,
    log: Annotated[
        str, typer.Argument(help="A log, a pool that ingest wrote, or sample for the built-in log.")
    ] = "sample",
    encoder: Annotated[
        str, typer.Option(help="Of the vectors: auto, static, projected, tuned, lsa or sentence.")
    ] = "auto",
    held_out: Annotated[
        int,
        typer.Option(
            min=0,
            help="Last sessions that the encoder does not see; anchors come from them. 0: replay a "
            "pool with its own vectors, which may have seen every answer.",
        ),
    ] = 1000,
    anchors: Annotated[int, typer.Option(min=1, help="Sampled sessions; 100 in the paper.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each; 1000 in the paper.")] = 1000,
    stream: Annotated[
        int, typer.Option(min=0, help="Last sessions to score in order of time; 0: none.")
    ] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Of every random draw.")] = 0,
    processes: Processes = None,
) -> None:
    """Repeat the paper's evaluation on a log and write the report: figures, tables, numbers.

    An interrupted run goes on where it stopped when it is started again with the same options.
    """
    from nextquery import replay

    with Stages() as stages:
        pool = _pool(log, to, encoder if not held_out else "static", stages)
        past, name = replay.PastSessions.of_pool(pool), encoder_name(pool)
        if held_out:
            stages("fit on earlier sessions", None)
            kept = to / f"encoder-{encoder}-{held_out}"
            pool, past, name = replay.refit(pool, past, held_out, encoder, keep_in=kept)
            stages("fit on earlier sessions", 1.0)
        page = replay.reproduce(
            pool,
            past,
            to,
            anchors=anchors,
            rounds=rounds,
            stream_sessions=stream,
            encoder=name,
            held_out=held_out,
            seed=seed,
            processes=processes,
            progress=progress_of(stages),
        )
    out().print(str(page), markup=False, soft_wrap=True)
    err().print(f"figures and tables: {page.parent}", markup=False, soft_wrap=True)


def _pool(log: str, to: Path, encoder: str, stages: Stages) -> "ArmPool":
    """The pool given, or one made of the log, once, inside the folder of the run."""
    from nextquery.arms import ArmPool
    from nextquery.ingest import ingest

    for made in (Path(log), to / "pool"):
        if (made / "manifest.json").exists():
            return ArmPool.open(made)
    return ingest(o.source([log]), to / "pool", encoder=encoder, progress=stages).pool
