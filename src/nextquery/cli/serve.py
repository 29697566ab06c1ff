"""`nextquery serve`: recommend and learn over HTTP."""

from typing import Annotated

import typer

from nextquery.cli import complete
from nextquery.cli import settings_options as s
from nextquery.cli.serving import serve_with


def serve(
    pool: Annotated[
        str | None,
        typer.Argument(
            metavar="POOL",
            help="A pool that ingest wrote, or topics for a pool of the built-in log.",
        ),
    ] = None,
    store: s.StoreUrl = None,
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[
        str | None, typer.Option(help="The port to listen on; 0 for any free port.")
    ] = None,
    workers: Annotated[str | None, typer.Option(help="Number of worker processes.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Search the pool on a Ray cluster: host:port of its head node, auto for the Ray "
            "on this machine, or local to start one here.",
        ),
    ] = None,
    shards: Annotated[
        str | None,
        typer.Option(help="Shards of the pool on the cluster; one per machine by default."),
    ] = None,
    keys: Annotated[
        str | None, typer.Option(help="Whether requests need an API key: auto, on or off.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete.served_policies,
            help="Policy that ranks the candidates; nextquery config show lists the names.",
        ),
    ] = None,
    explore: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="A CSV, TSV, Parquet or DuckDB file to explore by example on the page.",
        ),
    ] = None,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Allow a change of the policy to forget what was learnt live. Without it, serve "
            "asks on a terminal, and is an error elsewhere.",
        ),
    ] = False,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
    config: s.Config = None,
) -> None:
    """Recommend and learn over HTTP.

    Every event is stored before its response is sent, so you can kill the service at any time
    without losing data.

    Without API keys it only serves this machine, and administration needs the token that it prints.
    Before you put a proxy in front, make a key first: nextquery keys create NAME --scope write
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
        "explore": explore,
    }
    serve_with(options, more=set, config=config, forget=forget)
