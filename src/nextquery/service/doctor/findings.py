"""What a check found, and what to do about it."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from nextquery.errors import NextqueryError

State = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """One checked thing: what was found and, if it is not right, what to do."""

    name: str
    state: State
    found: str
    todo: str = ""


def ok(name: str, found: str) -> Finding:
    """Return a finding that is right.

    >>> ok("clock", "2026-11-19").state
    'ok'
    """
    return Finding(name, "ok", found)


def warning(name: str, found: str, todo: str) -> Finding:
    """Return a finding that the service can live with."""
    return Finding(name, "warning", found, todo)


def problem(name: str, found: str, todo: str) -> Finding:
    """Return a finding with which the service does not start, or may lose something."""
    return Finding(name, "problem", found, todo)


def checked(name: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """Return what a check found; an error of ours or of a file is a problem, not the end."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except NextqueryError as error:
        what, _, todo = str(error).partition(". ")
        found.append(
            problem(name, what.rstrip("."), f"{todo.rstrip('.')}." if todo else "See the message.")
        )
    except OSError as error:
        found.append(problem(name, str(error), "Check that path and its rights."))
    return found
