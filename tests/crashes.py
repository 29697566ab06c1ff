"""What the test run does when Ray ends the process that runs the cluster's tests.

Ray's client is native code in that process. When a Ray worker dies, as many of those tests want, it
ends the whole process once in a great while, without a Python error. The test is then run once more
in a new process, and the run says so at its end, with the last lines that Ray logged. A second
crash, and a crash of any other test, is a failure.
"""

from pathlib import Path
from typing import Any

import pytest

_MAY_CRASH = "tests/cluster/"
_LOGS = Path("/tmp/ray")
_crashed: dict[str, list[str]] = {}


def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """Excuse the first crash of a test that uses Ray: xdist runs it again by itself."""
    if crashitem.startswith(_MAY_CRASH) and not _crashed:
        _crashed[crashitem] = _last_lines_of_ray()
        report.outcome = "rerun"  # type: ignore[assignment]


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """Show it as R, not as a failure."""
    return ("rerun", "R", "RERUN") if report.outcome == "rerun" else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which test was run again, and why."""
    for test, lines in _crashed.items():
        terminalreporter.section("Ray ended a test process")
        terminalreporter.line(f"{test} was run again in a new process. Ray's last lines:")
        for line in lines:
            terminalreporter.line(f"  {line}")


def _last_lines_of_ray() -> list[str]:
    logs = sorted(_LOGS.glob("session_2*/logs/python-core-driver-*.log"), key=_age)
    return [
        line
        for log in logs[-2:]
        for line in (log.name, *log.read_text("utf-8", errors="replace").splitlines()[-12:])
    ]


def _age(path: Path) -> float:
    return path.stat().st_mtime
