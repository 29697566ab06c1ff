"""The processes of the test run's own Ray, to be killed in the middle of their work."""

import contextlib
import os
import signal
from collections.abc import Callable

import psutil
import ray


def raylet() -> int:
    """The process that starts the workers of this machine's node."""
    found: int = ray.get(ray.remote(lambda: os.getppid()).options(num_cpus=0).remote())
    assert "raylet" in psutil.Process(found).name()
    return found


def workers_of(parent: int, doing: str) -> list[int]:
    """The worker processes below a raylet that run a task of this name."""
    names: Callable[[psutil.Process], str] = lambda process: " ".join(process.cmdline())  # noqa: E731
    found = []
    for process in psutil.Process(parent).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if names(process).startswith(f"ray::{doing}"):
                found.append(int(process.pid))
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
