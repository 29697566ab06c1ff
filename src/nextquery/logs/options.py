"""Options for a log: its columns and time format, how to clean it, what must stay private."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from nextquery import datasets
from nextquery.checks import number, one_of, whole_number
from nextquery.errors import InvalidInput
from nextquery.logs.cleaning import ANY, ENGLISH, PROFILES, rules_of
from nextquery.logs.database import text
from nextquery.logs.language import checked_language
from nextquery.logs.private_text import PATTERNS


def checked_format(value: str) -> str:
    """Return a format that says at least the day, as DuckDB's strptime reads it.

    >>> checked_format("%d.%m.%Y %H:%M")
    '%d.%m.%Y %H:%M'
    >>> checked_format("dd.mm.yyyy")
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: time_format must have a year (%Y), a month (%m) and a day (%d)...
    """
    day = "TIMESTAMP '2031-10-12'"
    written = f"strftime({day}, {text(value)})"
    query = f"SELECT epoch(try_strptime({written}, {text(value)})) = epoch({day})"
    try:
        readable = duckdb.connect().execute(query).fetchall() == [(True,)]
    except duckdb.Error:
        readable = False
    if not readable:
        raise InvalidInput(
            "time_format must have a year (%Y), a month (%m) and a day (%d), as in "
            f"'%d.%m.%Y %H:%M:%S' or '%m/%d/%Y %I:%M %p'; received {value!r}."
        )
    return value


FORMATS = ("csv", "tsv", "jsonl", "parquet", "ubi", "ir_datasets")
ROLES = ("session", "user", "time", "query", "hits", "segment")
CLEANING = ("profile", "skip", "max_chars", "language")  # a pool cleans typed queries by them


@dataclass(frozen=True)
class LogOptions:
    """How to read a log, split it into sessions, clean it and protect it, by default as the paper.

    `LogOptions.of` also knows the defaults of the built-in logs.

    Parameters
    ----------
    session, user, time, query, hits : column names; None finds them by common names. `hits` is how
        many results a query had; a cell that is no whole number means that it is not known.
    segment : the column of the segment of each row, such as its language or tenant; None: there are
        no segments, also if a column is called so. An empty cell is the segment "".
    gap_minutes : inactivity that ends a session, for rows with a user but no session id; above 0.
    profile : ``text`` (the paper's rules) or ``sql``.
    skip : names of cleaning rules and privacy patterns to switch off.
    min_queries, max_queries : length of the sessions to keep, 4 to 50 in the paper.
    max_chars : longer queries are dropped; at least 1.
    language : an ISO 639-1 code: sessions that are clearly in another language are removed. Any
        code but ``en`` keeps letters beyond ASCII. ``any`` keeps every language. None means ``en``
        for the profile ``text``, and every language for ``sql`` or if you skip ``non-ascii``.
    min_users : minimum number of distinct users who issued an arm. None means 2 with a user column
        and 1 without one (sessions are then counted instead of users).
    blocklist : a file with one query per line; compared after cleaning.
    format : one of `FORMATS`; None detects it from the name and content of each file.
    memory_limit : memory that DuckDB may use before it spills to disk.
    threads : DuckDB threads; None uses all cores. The result does not depend on it.
    time_format : how times are written, such as ``%d.%m.%Y %H:%M:%S`` (DuckDB's strptime); None
        reads ISO 8601 and unix time.

    >>> LogOptions(profile="json")
    Traceback (most recent call last):
    nextquery.errors.InvalidInput: profile must be one of text, sql; received 'json'.
    """

    session: str | None = None
    user: str | None = None
    time: str | None = None
    query: str | None = None
    hits: str | None = None
    segment: str | None = None
    gap_minutes: float = 30.0
    profile: str = "text"
    skip: tuple[str, ...] = ()
    min_queries: int = 4
    max_queries: int = 50
    max_chars: int = 1000
    language: str | None = None
    min_users: int | None = None
    blocklist: str | Path | None = None
    format: str | None = None
    memory_limit: str = "2GB"
    threads: int | None = None
    time_format: str | None = None

    def __post_init__(self) -> None:
        number(self.gap_minutes, "gap_minutes", low=0, above_low=True)
        one_of(self.profile, "profile", PROFILES)
        whole_number(self.min_queries, "min_queries", at_least=1)
        whole_number(self.max_queries, "max_queries", at_least=self.min_queries)
        whole_number(self.max_chars, "max_chars", at_least=1)
        if self.min_users is not None:
            whole_number(self.min_users, "min_users", at_least=1)
        if self.threads is not None:
            whole_number(self.threads, "threads", at_least=1)
        if self.blocklist is not None and not Path(self.blocklist).is_file():
            raise InvalidInput(
                f"cannot read the blocklist {self.blocklist}: there is no such file. Pass a UTF-8 "
                "text file with one query per line."
            )
        if self.format is not None:
            one_of(self.format, "format", FORMATS)
        if self.time_format is not None:
            checked_format(self.time_format)
        if not re.fullmatch(r"(?i)\s*\d+(\.\d+)?\s*[kmgt]i?b\s*", self.memory_limit):
            raise InvalidInput(
                "memory_limit must be a size like '2GB' or '500MB'; "
                f"received {self.memory_limit!r}."
            )
        if self.language is not None:
            object.__setattr__(self, "language", checked_language(self.language))
        object.__setattr__(self, "skip", self._checked_skip())

    @classmethod
    def of(cls, log: Any, **given: Any) -> "LogOptions":
        """Return the options for a log. A built-in log has defaults of its own (`datasets.LOGS`).

        Options that are None in `given` keep their default. What a built-in log skips is skipped
        beside what you skip, unless you ask for a language.

        >>> LogOptions.of(datasets.path("topics")).min_queries, LogOptions.of("log.tsv").min_queries
        (1, 4)
        """
        name = datasets.name_of(log)
        own = {} if name is None else dict(datasets.LOGS[name].options)
        chosen = {option: value for option, value in given.items() if value is not None}
        skipped = () if "language" in chosen else own.pop("skip", ())
        skip = tuple(dict.fromkeys((*skipped, *chosen.get("skip", ()))))
        return cls(**{**own, **chosen, "skip": skip})

    def _checked_skip(self) -> tuple[str, ...]:
        names = (self.skip,) if isinstance(self.skip, str) else tuple(self.skip)
        rules = (*rules_of(self.profile), *rules_of(self.profile, ANY))
        removable = dict.fromkeys(rule.name for rule in rules if not rule.always)
        allowed = [*removable, *(pattern.name for pattern in PATTERNS)]
        for name in names:
            if any(rule.always and rule.name == name for rule in rules):
                raise InvalidInput(
                    f"skip: the rule {name!r} cannot be switched off: an arm is a non-empty text "
                    f"without control characters. You can skip: {', '.join(allowed)}."
                )
            one_of(name, "skip", allowed)
        return names

    @property
    def expected_language(self) -> str | None:
        """The language of the sessions to keep; None keeps every language.

        >>> LogOptions().expected_language, LogOptions(profile="sql").expected_language
        ('en', None)
        """
        if "language" in self.skip or self.language == ANY:
            return None
        every = self.profile != "text" or "non-ascii" in self.skip
        return self.language or (None if every else ENGLISH)

    @property
    def fewest_left(self) -> int:
        """The fewest queries that a session must have left after the privacy rules."""
        return min(2, self.min_queries)

    def column(self, role: str) -> str | None:
        """Return the column mapped to `role`, if any."""
        value = getattr(self, role)
        return None if value is None else str(value)

    def cleaning(self) -> dict[str, Any]:
        """Return the options that decide how one query is cleaned."""
        return {name: getattr(self, name) for name in CLEANING}

    def to_dict(self) -> dict[str, Any]:
        """Return the options as JSON, for reports and for comparing two runs."""
        fields = asdict(self)
        del fields["threads"], fields["memory_limit"]  # no arm or session depends on them
        fields["skip"] = list(self.skip)
        fields["blocklist"] = None if self.blocklist is None else str(self.blocklist)
        return fields
