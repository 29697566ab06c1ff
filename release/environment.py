"""A clean virtual environment, and commands in it that do not see this project's folder."""

import os
import subprocess
from pathlib import Path

_HIDDEN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
_TAIL = 12  # lines of a failed command to show


class CheckFailed(Exception):
    """A command of a check failed."""


class Environment:
    """A virtual environment of one Python, with a working folder beside it."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.path, self.work = folder / "venv", folder / "work"
        self.bin = self.path / "bin"
        self.work.mkdir(parents=True)
        command([str(python), "-I", "-m", "venv", str(self.path)], self.work)

    def pip_install(self, *requirements: str, constraints: Path) -> None:
        """Install from wheels alone: a user has no compiler."""
        options = ["--progress-bar", "off", "--disable-pip-version-check", "--only-binary", ":all:"]
        options += ["--constraint", str(constraints)]
        self.run("python", "-m", "pip", "install", *options, *requirements)

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        """Run a program of the environment in its working folder; return its standard output."""
        path = os.pathsep.join([str(self.bin), os.environ.get("PATH", "")])
        return command([str(self.bin / program), *arguments], cwd or self.work, PATH=path)

    def megabytes(self) -> int:
        """Return the size of the environment, in units of 10⁶ bytes."""
        files = (file for file in self.path.rglob("*") if not file.is_symlink())
        return round(sum(file.stat().st_blocks * 512 for file in files) / 1e6)


def command(arguments: list[str], cwd: Path, **variables: str) -> str:
    """Run a command; return its standard output, or raise with the end of what it said."""
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    done = subprocess.run(
        arguments,
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        said = [line for line in said if not line.startswith(("WARNING: Location", "Traceback"))]
        raise CheckFailed("\n".join(said[-_TAIL:]) or f"exit code {done.returncode}")
    return done.stdout
