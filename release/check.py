"""Check a release: install the wheel in a clean environment of every Python, and use it.

    python -m release.check             every version that this machine has
    python -m release.check 3.12 3.13   only these

Prints what it does, then a table of versions × checks. Exits with 1 if a check failed.
"""

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path

from release.checks import CHECKS, ROOT, Release
from release.dist import checked
from release.environment import CheckFailed, Environment, command
from release.pythons import VERSIONS, Python, found
from tests.logs_for_tests import pets

Results = dict[str, str]  # by the check's name: "ok", "FAILED" or "not run"


def check(python: Python, release: Release, folder: Path) -> Results:
    """Run every check on a Python; without an installation the others cannot run."""
    results: Results = dict.fromkeys((step.__name__ for step in CHECKS), "not run")
    env = Environment(python.path, folder)
    for step in CHECKS:
        began = time.monotonic()
        try:
            said = step(env, release).strip()
            results[step.__name__] = "ok"
        except Exception as failure:  # whatever it is, the other checks and versions go on
            said = f"FAILED\n{failure if isinstance(failure, CheckFailed) else repr(failure)}"
            results[step.__name__] = "FAILED"
        seconds = time.monotonic() - began
        say(f"{python.version}  {step.__name__:<10} {seconds:5.0f} s  {said}")
        if results["install"] == "FAILED":
            break
    return results


def table(results: dict[str, Results]) -> str:
    """Return results as a table, versions × checks.

    >>> print(table({"3.11.7": {"install": "ok", "serve": "ok"}, "3.14": {}}))
    Python  install  serve
    3.11.7  ok       ok
    3.14    not found
    """
    names = next((list(row) for row in results.values() if row), [])
    wide = {name: max(7, len(name)) for name in names}
    lines = ["  ".join(["Python", *(f"{name:<{wide[name]}}" for name in names)])]
    for version, row in results.items():
        cells = [f"{row[name]:<{wide[name]}}" for name in names] if row else ["not found"]
        lines.append("  ".join([f"{version:<6}", *cells]))
    return "\n".join(line.rstrip() for line in lines)


def passed(results: Results) -> bool:
    """Whether every check of a version passed."""
    return bool(results) and set(results.values()) == {"ok"}


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def prepared(folder: Path) -> Release:
    """Build the release twice, and make a small log and a pool of it with this Python."""
    out = ROOT / "dist"
    out.mkdir(exist_ok=True)
    for old in out.glob("nextquery-*"):
        old.unlink()
    packed, wheel = checked(out)
    say(f"built twice, the same bytes: {packed.name}, {wheel.name}")
    log, pool = pets(folder / "log.tsv"), folder / "pool"
    nextquery = [sys.executable, "-m", "nextquery"]
    command([*nextquery, "ingest", str(log), "--out", str(pool)], folder)
    return Release(wheel, wheel.name.split("-")[1], log, pool)


def classified() -> list[str]:
    """Return the versions of Python that the metadata names."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)


def main() -> None:
    """Check the versions that were given, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    versions = parser.parse_args().versions
    pythons = {version: found(version) for version in versions}
    results: dict[str, Results] = {}
    with tempfile.TemporaryDirectory(prefix="nextquery-release-") as temporary:
        release = prepared(Path(temporary))
        for version, python in pythons.items():
            if python is None:
                say(f"{version}  not found on PATH or in pyenv. Install it and run this again.")
                results[version] = {}
                continue
            say(f"{python.version}  {python.path}")
            results[python.version] = check(python, release, Path(temporary, version))
    say("\n" + table(results))
    good = [version.rpartition(".")[0] for version in results if passed(results[version])]
    failed = [version for version, row in results.items() if row and not passed(row)]
    if unproved := [version for version in classified() if version not in good]:
        say(f"pyproject.toml names {', '.join(unproved)}, which did not pass here.")
    if unnamed := [version for version in good if version not in classified()]:
        say(f"pyproject.toml could name {', '.join(unnamed)} too.")
    sys.exit(1 if failed or not good else 0)


if __name__ == "__main__":
    main()
