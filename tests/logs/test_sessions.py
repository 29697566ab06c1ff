from pathlib import Path

import numpy as np
import pytest

from nextquery.errors import InvalidInput
from nextquery.logs import LogOptions, prepare, stats_of
from tests.logs.conftest import Write

ANY = {"min_queries": 1, "max_queries": 1000, "min_users": 1}


def sessions(path: Path, **options: object) -> list[list[str]]:
    prepared = prepare(path, LogOptions(**{**ANY, **options}))  # type: ignore[arg-type]
    return [[prepared.texts[arm] for arm in session] for session in prepared.sessions.lists()]


def test_sessions_by_id_are_ordered_by_time(write: Write) -> None:
    path = write([(2, 200, "c"), (1, 110, "b"), (1, 100, "a"), (2, 210, "d")])
    assert sessions(path) == [["a", "b"], ["c", "d"]]


def test_equal_times_keep_the_order_of_the_file(write: Write) -> None:
    assert sessions(write([(1, 5, q) for q in "zyx"])) == [["z", "y", "x"]]


def test_a_session_id_counts_per_user(write: Write) -> None:
    rows = [("ann", 1, "a", 1), ("bob", 1, "x", 2), ("ann", 1, "b", 3), ("bob", 1, "y", 4)]
    path = write(rows, header="user\tsession\tquery\ttime")
    assert sessions(path) == [["a", "b"], ["x", "y"]]


def test_a_user_who_pauses_starts_a_new_session(write: Write) -> None:
    minutes = [0, 10, 40, 71, 80]  # 30 minutes are not a gap, 31 are
    rows = [("ann", 60 * m, f"q{'abcde'[i]}") for i, m in enumerate(minutes)]
    path = write(rows, header="user_id\ttime\tquery")
    assert sessions(path) == [["qa", "qb", "qc"], ["qd", "qe"]]
    assert sessions(path, gap_minutes=60) == [["qa", "qb", "qc", "qd", "qe"]]


def test_rows_that_cleaning_drops_still_bridge_a_gap(write: Write) -> None:
    rows = [("ann", 0, "a"), ("ann", 1500, "123"), ("ann", 3000, "b")]
    assert sessions(write(rows, header="user_id\ttime\tquery")) == [["a", "b"]]


def test_consecutive_repeats_are_dropped_after_cleaning(write: Write) -> None:
    path = write([(1, i, q) for i, q in enumerate(["Tea", "tea!", "99", "TEA", "cup", "tea"])])
    assert sessions(path) == [["tea", "cup", "tea"]]
    assert sessions(path, skip=("repeats",)) == [["tea", "tea", "tea", "cup", "tea"]]


def test_sessions_of_four_to_fifty_queries_stay(write: Write) -> None:
    lengths = {1: 3, 2: 4, 3: 50, 4: 51}
    rows = [(s, i, f"q{s} x{i}") for s, n in lengths.items() for i in range(n)]
    path = write(rows)
    assert np.diff(prepare(path).sessions.offsets).tolist() == [4, 50]
    report = stats_of(path)
    assert report.removed["session-length"] == 3 + 51
    assert dict(report.table2()) == {
        "queries (original)": 108,
        "queries (pre-processed)": 54,
        "sessions": 2,
        "average queries per session": 27.0,
        "distinct queries": 54,
    }


def test_every_row_is_accounted_for(write: Write) -> None:
    queries = ["a", "a", "", "β", "12", "b", "c", "d", "x" * 2000]
    report = stats_of(write([(1, i, q) for i, q in enumerate(queries)] + [(2, 1, "alone")]))
    assert report.original == report.queries + sum(report.removed.values()) == 10
    assert report.removed == {
        "empty": 1, "non-ascii": 1, "numeric": 1, "too-long": 1, "repeats": 1, "session-length": 1,
        "language": 0,
    }  # fmt: skip


def test_without_times_the_order_of_the_file_counts(write: Write) -> None:
    path = write([(2, "b"), (1, "a"), (2, "c"), (1, "d")], header="session\tquery")
    prepared = prepare(path, LogOptions(min_queries=2))
    assert prepared.texts == ["b", "a", "c", "d"]
    assert np.isnan(prepared.sessions.times).all()
    assert sessions(path) == [["b", "c"], ["a", "d"]]


def test_when_nothing_is_left_the_error_names_the_rule(write: Write) -> None:
    with pytest.raises(InvalidInput, match=r"'session-length' removed most.*--min-queries"):
        prepare(write([(1, 1, "a"), (2, 1, "b")]))
