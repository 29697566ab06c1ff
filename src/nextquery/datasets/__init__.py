"""The sample log in the package, so you can try everything without your own log."""

import csv
import gzip
from pathlib import Path
from typing import NamedTuple

from nextquery.checks import one_of

__all__ = ["NAMES", "LoggedQuery", "load", "path"]

NAMES = ("sample",)


class LoggedQuery(NamedTuple):
    """One row of a log."""

    session_id: str
    time: str
    query: str


def path(name: str = "sample") -> Path:
    """Return the file of a data set, for any command that takes a log."""
    return Path(__file__).parent / f"{one_of(name, 'data set', NAMES)}.tsv.gz"


def load(name: str = "sample") -> list[LoggedQuery]:
    """Return the rows of a data set, grouped by session and in order of time.

    >>> rows = load("sample")
    >>> len({row.session_id for row in rows})
    4045
    """
    with gzip.open(path(name), "rt", encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(reader)
        return [LoggedQuery(*row) for row in reader]
