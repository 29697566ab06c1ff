"""What the commands that may run on a cluster share: the option, and joining it."""

import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from nextquery.cli.output import err
from nextquery.errors import InvalidInput

if TYPE_CHECKING:
    from nextquery.replay.runners import Each

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Ray cluster: host:port of its head node, auto for the Ray of this machine, "
        "or local to start one here.",
    ),
]


def refuse_both(cluster: str | None, processes: int | None) -> None:
    """Say that processes are those of one machine, before any cluster is joined."""
    if cluster is not None and processes is not None:
        raise InvalidInput(
            f"received --processes {processes} and --cluster {cluster}: processes are those of "
            "this machine, and a cluster decides itself how many it runs. Leave one of them out."
        )


@functools.cache
def join(address: str) -> None:
    """Be connected to a cluster, and say to which, once."""
    from nextquery.cluster import connect

    err().print(f"cluster: {connect(address)}", markup=False)


def notes_aside() -> "contextlib.redirect_stdout[TextIO]":
    """Standard output is for answers: what Ray prints there of workers that died goes to error."""
    return contextlib.redirect_stdout(sys.stderr)


def encoding_on(cluster: str | None) -> dict[str, Any]:
    """Who encodes; a cluster is joined before anything is read, so that a mistake shows at once."""
    if cluster is None:
        return {}
    join(cluster)
    from nextquery.cluster.encoding import on_ray

    return {"encode_blocks": on_ray}


def tasks_on(cluster: str | None, *, writes: Path, reads: Path) -> "Each | None":
    """What runs the pieces of a replay: a cluster that was joined, or None, this machine."""
    if cluster is None:
        return None
    join(cluster)
    from nextquery.cluster.tasks import TasksOnRay

    return TasksOnRay(writes, [reads / "manifest.json"])
