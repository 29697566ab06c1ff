"""Clean one typed query with the rules of the log, its patterns and those for typed queries."""

import threading
from collections.abc import Collection
from typing import NamedTuple

import duckdb

from nextquery.logs.quoting import text
from nextquery.logs.rules.cleaning import cleaning
from nextquery.logs.rules.private_patterns import (
    ADDRESS_OR_WORD,
    NUMBERS,
    PATTERNS,
    PLAIN_WORDS,
    RAW,
    seen_in,
    verdict,
)


class Cleaned(NamedTuple):
    """A cleaned query."""

    text: str  #: its key as an arm
    shown: str  #: its displayed spelling
    dropped: str | None  #: the rule that drops it, if any
    private: str | None  #: the pattern of private text that it matches, if any


class QueryCleaner:
    """Clean single queries with the SQL that cleans whole logs, so that both give the same text.

    What a log calls private is private here too; the patterns marked `live_only` add to it.

    >>> clean = QueryCleaner()
    >>> clean("Deep%20Learning, 2nd ed.").text
    'deep learning 2nd ed'
    >>> clean("mail bob@example.com").private
    'email'
    """

    def __init__(
        self,
        profile: str = "text",
        skip: Collection[str] = (),
        max_chars: int = 1000,
        language: str | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._connection = duckdb.connect(config={"threads": "1", "memory_limit": "64MB"})
        cleaned = cleaning("(SELECT ?::VARCHAR AS raw)", profile, skip, max_chars, language)
        # Planning this SQL costs more than running it, so it is planned once. Most of the rest are
        # the patterns, which DuckDB compiles for every query: leave out those that cannot match.
        self._connection.execute(
            f"PREPARE clean_words AS SELECT text, shown, dropped, NULL FROM ({cleaned})"
        )
        for name, patterns in (("clean_most", NUMBERS), ("clean_any", PATTERNS)):
            self._connection.execute(
                f"PREPARE {name} AS SELECT text, shown, dropped, {verdict('h', skip, patterns)} "
                f"FROM (SELECT *, {seen_in(RAW)} AS h FROM ({cleaned}))"
            )

    def __call__(self, query: str) -> Cleaned:
        """Clean a query; characters that UTF-8 cannot encode are replaced first."""
        valid = query.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
        with self._lock:
            statement = f"EXECUTE {_statement(valid)}({text(valid)})"
            row = self._connection.execute(statement).fetchone()
        assert row is not None
        return Cleaned(*row)


def _statement(query: str) -> str:
    if PLAIN_WORDS.fullmatch(query):
        return "clean_words"
    return "clean_any" if ADDRESS_OR_WORD.search(query) else "clean_most"
