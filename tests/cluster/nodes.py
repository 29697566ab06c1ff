"""A second Ray node on this machine, and its end."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from nextquery.cluster.connection import alive_nodes

# Ray's workers are nice to others, and starve where others are busy.
NOT_NICE = {"RAY_worker_niceness": "0"}


@contextmanager
def second_node(cluster: str, *further: str, cpus: int = 1) -> Iterator["subprocess.Popen[bytes]"]:
    """A node that joined the cluster here, as another machine would; it is killed at the end."""
    command = [str(Path(sys.executable).parent / "ray"), "start", "--address", cluster, "--block"]
    options = ["--num-cpus", str(cpus), "--object-store-memory", str(80 << 20)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [*command, *options, *further], stdout=quiet, stderr=quiet, env={**os.environ, **NOT_NICE}
    ) as node:
        try:
            while nodes_alive() < 2:
                assert node.poll() is None
                time.sleep(0.1)
            yield node
        finally:
            kill(node.pid)
            while nodes_alive() > 1:  # Ray notices it after a while; the next test should not
                time.sleep(0.1)


def nodes_alive() -> int:
    """How many nodes the cluster of this process has."""
    return len(alive_nodes())


def kill(pid: int) -> None:
    """kill -9 of a process and of all that it started, as when a machine loses power.

    One of those may call this: it ends itself last.
    """
    if psutil.pid_exists(pid):
        process = psutil.Process(pid)
        tree = [process, *process.children(recursive=True)]
        for one in sorted(tree, key=lambda one: one.pid == os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(one.pid, 9)
