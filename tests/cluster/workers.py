"""Find and kill processes of the test run's Ray while they work."""

import contextlib
import os
import signal
from collections.abc import Callable

import psutil
import ray


def raylet() -> int:
    """Return the process that starts the workers of this machine's node."""
    pid: int = ray.get(ray.remote(lambda: os.getppid()).options(num_cpus=0).remote())
    assert "raylet" in psutil.Process(pid).name()
    return pid


def workers_of(parent: int, doing: str) -> list[int]:
    """Return the worker processes of a raylet that run a task of this name."""
    names: Callable[[psutil.Process], str] = lambda process: " ".join(process.cmdline())  # noqa: E731
    pids = []
    for process in psutil.Process(parent).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if names(process).startswith(f"ray::{doing}"):
                pids.append(int(process.pid))
    return pids


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
