"""`nextquery serve`: recommend and learn over HTTP."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import Stages
from nextquery.cli.serving import joined, open_pool

_SAMPLE = "pools/sample"


def serve(
    pool: Annotated[
        str | None,
        typer.Argument(
            metavar="POOL",
            help="A pool that ingest wrote, or sample for one of the built-in log.",
        ),
    ] = None,
    store: s.StoreUrl = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[str | None, typer.Option(help="The port; 0: any free one.")] = None,
    workers: Annotated[str | None, typer.Option(help="Processes that answer.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Search the pool on a Ray cluster: host:port of its head node, auto for the Ray "
            "of this machine, or local to start one here.",
        ),
    ] = None,
    shards: Annotated[
        str | None,
        typer.Option(help="Parts of the pool on the cluster; by default one for each machine."),
    ] = None,
    keys: Annotated[
        str | None, typer.Option(help="Whether requests need an API key: auto, on, off.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="What ranks the candidates; nextquery config show lists the names."),
    ] = None,
    set: s.Set = [],  # noqa: B006  (typer reads it, nobody changes it)
    config: s.Config = None,
) -> None:
    """Recommend and learn over HTTP, and lose nothing.

    Every event is in the store before it is answered, so the service may be killed at any time.
    """
    options = {
        "pool": pool,
        "store": store,
        "host": host,
        "port": port,
        "workers": workers,
        "cluster": cluster,
        "shards": shards,
        "keys": keys,
        "policy": policy,
    }
    settings = s.loaded(options, more=set, config=config).settings
    from nextquery.service.server import serve as run

    said = sys.stdout
    with Stages() as stages:
        if settings.pool == "sample" and not Path("sample").exists():
            settings = settings.model_copy(update={"pool": _sample(stages)})
        run(
            joined(settings),
            open_pool=open_pool,
            tell=lambda line: print(line, file=said, flush=True),
            progress=lambda done, total: stages(
                "learn from past sessions", done / total if total else 1.0
            ),
        )


def _sample(stages: Stages) -> str:
    """The pool of the built-in log, made once."""
    from nextquery import datasets
    from nextquery.ingest import ingest

    if not (Path(_SAMPLE) / "manifest.json").exists():
        ingest([str(datasets.path("sample"))], _SAMPLE, progress=stages)
    return _SAMPLE
