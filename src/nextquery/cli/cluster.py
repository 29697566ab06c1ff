"""The --cluster option, and joining the cluster, for the commands that have it."""

import contextlib
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from nextquery.cli.output import err
from nextquery.errors import InvalidInput

if TYPE_CHECKING:
    from nextquery.research.replay.work import Each

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Ray cluster: host:port of its head node, auto for the Ray on this machine, "
        "or local to start one here.",
    ),
]


def check_not_both(cluster: str | None, processes: int | None) -> None:
    """Raise an error if both are given, before any cluster is joined."""
    if cluster is not None and processes is not None:
        raise InvalidInput(
            f"received --processes {processes} and --cluster {cluster}: processes run on this "
            "machine, and a cluster decides how many tasks it runs. Pass only one of them."
        )


@functools.cache
def join(address: str) -> None:
    """Connect to a cluster, and print its address once."""
    from nextquery.cluster import connect

    err().print(f"cluster: {connect(address)}", markup=False)


def stdout_to_stderr() -> "contextlib.redirect_stdout[TextIO]":
    """Send what Ray prints about dead workers to standard error; standard output is for results."""
    return contextlib.redirect_stdout(sys.stderr)


def encoding_on(cluster: str | None) -> dict[str, Any]:
    """Join the cluster, if any, before anything is read, and return the arguments for encoding."""
    if cluster is None:
        return {}
    join(cluster)
    from nextquery.cluster.tasks import on_ray

    return {"encode_blocks": on_ray}


def tasks_on(cluster: str | None, *, writes: Path, reads: Path) -> "Each | None":
    """Join the cluster and return what runs a replay's pieces there; None: this machine."""
    if cluster is None:
        return None
    join(cluster)
    from nextquery.cluster.tasks import TasksOnRay

    return TasksOnRay(writes, [reads / "manifest.json"])
