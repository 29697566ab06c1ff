"""Start and kill a second Ray node on this machine."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from nextquery.cluster.connection import alive_nodes

# Ray's workers run with a high niceness, and starve on a busy machine.
NOT_NICE = {"RAY_worker_niceness": "0"}


@contextmanager
def second_node(cluster: str, *further: str, cpus: int = 1) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a node that joins the cluster as another machine would; kill it at the end."""
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
            while nodes_alive() > 1:  # Ray notices after a while; wait, for the next test
                time.sleep(0.1)


def nodes_alive() -> int:
    """Return the number of nodes of this process's cluster."""
    return len(alive_nodes())


def kill(pid: int) -> None:
    """kill -9 a process and all its children, as when a machine loses power.

    A child may call this: it kills itself last.
    """
    if psutil.pid_exists(pid):
        process = psutil.Process(pid)
        tree = [process, *process.children(recursive=True)]
        for victim in sorted(tree, key=lambda child: child.pid == os.getpid()):
            with suppress(ProcessLookupError):
                os.kill(victim.pid, 9)
