"""Find the Pythons of this machine: the newest patch of every version, from PATH and pyenv."""

import json
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_ASK = (
    "import ensurepip, json, platform, sqlite3, ssl, sys, sysconfig, venv; "
    "print(json.dumps([platform.python_version(), sys.implementation.name, "
    "bool(sysconfig.get_config_var('Py_GIL_DISABLED'))]))"
)


class Python(NamedTuple):
    """An interpreter that can make virtual environments."""

    version: str  #: as in 3.12.1
    path: Path


def found(version: str, folders: list[Path] | None = None) -> Python | None:
    """Return the newest Python of a version like 3.12, if there is one that works.

    >>> found("2.0") is None
    True
    """
    working = [
        python
        for folder in (places() if folders is None else folders)
        if (path := folder / f"python{version}").exists() and (python := asked(path)) is not None
    ]
    working = [python for python in working if python.version.startswith(f"{version}.")]
    return max(working, key=lambda python: _numbers(python.version), default=None)


def places() -> list[Path]:
    """Return the folders that may have a Python: those of PATH, and of every version of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    return [*on_path, *sorted(pyenv.glob("versions/*/bin"))]


def asked(path: Path) -> Python | None:
    """Ask a Python for its version; None if it does not run, or lacks what a check needs.

    (pyenv puts commands on PATH for versions that are not switched on: they exist and fail. A build
    without the GIL is another platform, for which few packages have wheels.)
    """
    try:
        command = [str(path), "-I", "-c", _ASK]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    version, implementation, free_threaded = json.loads(done.stdout)
    return Python(version, path) if implementation == "cpython" and not free_threaded else None


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
