"""What the commands that may run on a cluster share: the option, and joining it."""

from typing import Annotated

import typer

from nextquery.cli.output import err

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Ray cluster: host:port of its head node, auto for the Ray of this machine, "
        "or local to start one here.",
    ),
]


def join(address: str) -> None:
    """Be connected to a cluster, and say to which."""
    from nextquery.cluster import connect

    err().print(f"cluster: {connect(address)}", markup=False)
