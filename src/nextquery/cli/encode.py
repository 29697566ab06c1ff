"""`nextquery encode`: give the queries of a pool the vectors of another encoder."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import log_options as o
from nextquery.cli.cluster import Cluster, encoding_on, stdout_to_stderr
from nextquery.cli.output import Stages, err, print_json


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
    from nextquery.build.reencode import encode_anew

    err().print(f"plan: fit the encoder ({encoder}), encode, write {pool}", markup=False)
    with Stages() as stages, stdout_to_stderr():
        done = encode_anew(pool, encoder, progress=stages, **encoding_on(cluster))
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
