"""`nextquery demo`: the service and its page on the built-in log, in one command."""

from pathlib import Path
from typing import Annotated

import typer

from nextquery.cli import settings_options as s
from nextquery.cli.output import Stages
from nextquery.cli.serving import built_in_pool, serve_with


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where the pool and what it learns are kept; made if missing.")
    ] = Path("nextquery-demo"),
    port: Annotated[
        str | None, typer.Option(help="The port to listen on; 0 for any free port.")
    ] = None,
    set: s.Set = [],  # noqa: B006  (typer only reads it)
) -> None:
    """Try nextquery: serve the built-in log, topics, with its page on this machine.

    The first start makes the pool, which takes seconds. Later starts continue with what was
    learnt. To start from the beginning, delete the folder.
    """
    settings = {"store": f"sqlite:///{folder / 'topics.db'}", "port": port}
    loaded = s.load_settings(settings, more=set).settings
    from nextquery.service.server import check_address

    check_address(loaded)  # an error comes before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    with Stages() as stages:
        pool = built_in_pool("topics", folder, stages)
    serve_with({**settings, "pool": str(pool)}, more=set)
