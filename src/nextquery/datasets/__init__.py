"""The logs in the package, so you can try everything without your own log.

Some come with a fitted encoder, so you need not wait for a fit.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from zipfile import ZipFile

from nextquery.checks import one_of

__all__ = [
    "LOGS",
    "NAMES",
    "BuiltIn",
    "LoggedQuery",
    "arms_are",
    "file_of",
    "load",
    "name_of",
    "path",
]


class BuiltIn(NamedTuple):
    """A log in the package: its file, what it is, and how to read it."""

    file: str
    about: str  #: one sentence
    arms: str  #: what its queries are, as in "9,000 past queries"
    options: Mapping[str, Any] = MappingProxyType({})  #: where `LogOptions` differ from the paper's
    encoder: str = ""  #: an encoder fitted on it, which `ingest` takes by default


LOGS: Mapping[str, BuiltIn] = MappingProxyType(
    {
        "topics": BuiltIn(
            "topics.tsv.zst",
            "What 76,035 researchers turned to next: the topics of their arXiv papers, in order of "
            "date. These are publications, not searches.",
            "topics that researchers turned to in their papers",
            # A topic alone is worth keeping: it is part of a person's past. The topics are cut from
            # English titles, and names like "heegaard floer" are too short to judge by.
            MappingProxyType({"min_queries": 1, "skip": ("language",)}),
            encoder="topics-encoder.zip",
        ),
        "core": BuiltIn(
            "core.tsv",
            "45 real academic-search sessions of CORE, January to February 2025.",
            "past queries",
        ),
    }
)
NAMES = tuple(LOGS)


class LoggedQuery(NamedTuple):
    """One row of a log; the user is None in a log without users."""

    session_id: str
    time: str
    query: str
    user_id: str | None = None


def path(name: str = "topics") -> Path:
    """Return the file of a built-in log, for any command that takes a log."""
    return Path(__file__).parent / LOGS[one_of(name, "data set", NAMES)].file


def file_of(name: str) -> Path | None:
    """Return the file of the built-in log that a command means by `name`, if any.

    A file or folder of that name in the current folder comes first.
    """
    return path(name) if name in NAMES and not Path(name).exists() else None


def name_of(log: Any) -> str | None:
    """Return the name of a built-in log by its path (or a list of just that path), if it is one.

    >>> name_of([path("topics")]), name_of("my-log.tsv")
    ('topics', None)
    """
    alone = log[0] if isinstance(log, list | tuple) and len(log) == 1 else log
    if not isinstance(alone, str | os.PathLike):
        return None
    return next((name for name in NAMES if Path(alone) == path(name)), None)


def arms_are(name: str | None) -> str:
    """Return what the queries of a log are, in words; of any other log they are past queries.

    >>> arms_are(None)
    'past queries'
    """
    built_in = LOGS.get(name or "")
    return "past queries" if built_in is None else built_in.arms


def load(name: str = "topics") -> list[LoggedQuery]:
    """Return the rows of a built-in log: `topics` in order of time, `core` by session.

    >>> rows = load("topics")
    >>> len(rows), len({row.user_id for row in rows}), len({row.query for row in rows})
    (228913, 76035, 9410)
    """
    import duckdb  # slow to import

    with duckdb.connect() as connection:
        answer = connection.execute(
            "SELECT * FROM read_csv(?, delim='\t', quote='', escape='', header=true, "
            "all_varchar=true)",
            [str(path(name))],
        )
        columns = [column[0] for column in answer.description or ()]
        return [LoggedQuery(**dict(zip(columns, row, strict=True))) for row in answer.fetchall()]


def comes_with_encoder(log: str | None) -> bool:
    """Whether a built-in log has a fitted encoder.

    >>> [comes_with_encoder(log) for log in ("topics", "core", None)]
    [True, False, False]
    """
    built_in = LOGS.get(log or "")
    return built_in is not None and bool(built_in.encoder)


def unpacked(log: str | None, folder: Path) -> Path | None:
    """Unpack the encoder of a built-in log into `folder` and return its path, if there is one.

    It is what ``--encoder tuned`` fits on that log, in half precision and without the tokens that
    cannot occur in it (capital letters, other scripts). `benchmarks.fitted_encoders` makes it.
    """
    if not comes_with_encoder(log):
        return None
    target = folder / "encoder"
    with ZipFile(Path(__file__).parent / LOGS[log or ""].encoder) as archive:
        archive.extractall(target)
    return target
