from collections import defaultdict
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nextquery import datasets
from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions


def test_topics_is_whole_and_small() -> None:
    rows = datasets.load("topics")
    assert datasets.path().stat().st_size < 3_000_000
    assert len(rows) == 228_913
    assert len({row.user_id for row in rows}) == 76_035
    assert all(before.time <= after.time for before, after in pairwise(rows))
    assert all(2 <= len(row.query.split()) <= 4 for row in rows)


@pytest.mark.soak
def test_a_session_of_topics_is_one_person_and_ends_after_a_year_of_silence() -> None:
    days: dict[str, list[date]] = defaultdict(list)
    people: dict[str, set[str | None]] = defaultdict(set)
    for row in datasets.load("topics"):
        days[row.session_id].append(date.fromisoformat(row.time))
        people[row.session_id].add(row.user_id)
    assert {len(those) for those in people.values()} == {1}
    gaps = [(b - a).days for those in days.values() for a, b in pairwise(those)]
    assert max(gaps) <= 365


def test_core_has_the_real_sessions() -> None:
    rows = datasets.load("core")
    ids = [row.session_id for row in rows]
    assert (len(rows), len(set(ids))) == (222, 45)
    assert len([1 for a, b in pairwise(ids) if a != b]) + 1 == 45  # rows are grouped by session
    assert {row.user_id for row in rows} == {None}
    assert all(row.query.strip() for row in rows)


def test_their_licences_are_in_the_same_folder() -> None:
    text = datasets.path().with_name("LICENSES.md").read_text()
    for words in ("MIT", "CC0", "publications, not searches", *datasets.NAMES):
        assert words in text


def test_the_error_for_an_unknown_data_set_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="one of topics, core; received 'aol'"):
        datasets.load("aol")


def test_only_topics_keeps_sessions_of_one_query_by_default() -> None:
    assert LogOptions.of(datasets.path("topics")).min_queries == 1
    assert LogOptions.of([str(datasets.path("topics"))]).min_queries == 1
    assert LogOptions.of(datasets.path("topics"), min_queries=3).min_queries == 3
    others: list[Any] = [datasets.path("core"), "log.tsv", [datasets.path(), "log.tsv"], iter([])]
    for other in others:
        assert LogOptions.of(other) == LogOptions()


def test_a_file_of_the_same_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert datasets.file_of("topics") == datasets.path("topics")
    assert datasets.file_of("my-log") is None
    Path("topics").write_text("my own")
    assert datasets.file_of("topics") is None
