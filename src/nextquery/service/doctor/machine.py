"""Checks of the machine: Python and packages, the clock, open files."""

import platform
import resource
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from nextquery.service.doctor.findings import Finding, ok, problem, warning
from nextquery.service.http.limits import most_connections
from nextquery.service.settings import Settings

EXTRAS = ("service", "postgres", "ingest", "trained", "cluster", "otel")
_FEW_FILES = 1024
_DATE_LOST = 1_735_689_600.0  # 2025-01-01, as in `log.clock`


def check_versions(settings: Settings) -> Iterator[Finding]:
    """Python, nextquery, and the packages of the extras that are installed or needed."""
    yield ok("python", f"{platform.python_version()}, nextquery {version('nextquery')}")
    for extra in EXTRAS:
        needed = extra == "service" or (extra == "postgres" and "postgres" in settings.store)
        needed |= extra == "cluster" and settings.cluster is not None
        yield _extra(extra, needed=needed)


def _extra(extra: str, *, needed: bool) -> Finding:
    name = f"extra {extra}"
    wanted = [Requirement(line) for line in requires("nextquery") or ()]
    wrong, found = [], []
    for each in wanted:
        if each.marker is None or not each.marker.evaluate({"extra": extra}):
            continue
        if each.marker.evaluate({"extra": ""}):
            continue
        try:
            installed = version(each.name)
        except PackageNotFoundError:
            wrong.append(f"{each.name} is missing")
            continue
        found.append(f"{each.name} {installed}")
        if not each.specifier.contains(installed, prereleases=True):
            wrong.append(f"{each.name} is {installed}, needed is {each.specifier}")
    if wrong and (needed or (found and "missing" not in " ".join(wrong))):
        return problem(name, "; ".join(wrong), f"Run pip install 'nextquery[{extra}]'.")
    return ok(name, "not installed, and not needed here" if wrong else ", ".join(found))


def check_clock() -> Iterator[Finding]:
    """The date of the machine."""
    now = time.time()
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if now < _DATE_LOST:
        yield problem("clock", f"it is {shown}", "Set the date: start chrony or systemd-timesyncd.")
    else:
        yield ok("clock", shown)


def check_files(settings: Settings) -> Iterator[Finding]:
    """How many files the process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = most_connections(settings.max_connections)  # raises if there is no room
    found = f"{soft} open files, so {connections} connections per worker"
    if soft < _FEW_FILES:
        most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
        here = f"Run ulimit -n {most}" if most > soft else "Let root raise this user's limit"
        todo = f"{here}, or set LimitNOFILE=65536 in the systemd unit."
        yield warning("open files", found, todo)
    else:
        yield ok("open files", found)


def check_supported() -> Iterator[Finding]:
    """Whether this is a system that the service is tested on."""
    if sys.platform.startswith("linux"):
        yield ok("system", platform.platform())
    else:
        todo = "Expect surprises: only Linux is tested."
        yield warning("system", platform.platform(), todo)
