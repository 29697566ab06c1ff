"""A typed query is cleaned with the same SQL as the log, so it gives the same text."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nextquery.logs import LogOptions, QueryCleaner, prepare

QUERIES = [
    "Deep%20Learning",
    "C++ tutorial",
    "what's  new?",
    "machine+learning+papers",
    "a-b_c:d,e.f",
    "https://example.org/x caf",
    "tab\tand 'quotes' \\ \"double\"",
]


def test_one_by_one_equals_the_whole_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"session": "1", "query": query}) for query in QUERIES))
    prepared = prepare(log, LogOptions(min_queries=1))
    clean = QueryCleaner()
    assert sorted(prepared.texts) == sorted({clean(query).text for query in QUERIES})


@pytest.mark.parametrize(
    ("query", "dropped", "private"),
    [
        ("12345", "numeric", None),
        ("???", "empty", None),
        ("β catenin", "non-ascii", None),
        ("x" * 2000, "too-long", None),
        ("bob@example.com", None, "email"),
        ("4111 1111 1111 1111", "numeric", "card"),
        ("covid 19 2020 2021", None, None),
    ],
)
def test_what_is_dropped_and_what_is_private(
    query: str, dropped: str | None, private: str | None
) -> None:
    cleaned = QueryCleaner()(query)
    assert cleaned.dropped == dropped
    assert cleaned.private == private


@pytest.mark.parametrize("query", ["", "\0", "\ud800", "'; DROP TABLE x; --", "a\nb", "％２０"])
def test_nothing_typed_can_break_it(query: str) -> None:
    QueryCleaner()(query)


def test_threads_can_share_a_cleaner() -> None:
    clean = QueryCleaner()
    with ThreadPoolExecutor(4) as threads:
        texts = list(threads.map(lambda i: clean(f"Query {i}").text, range(100)))
    assert texts == [f"query {i}" for i in range(100)]
