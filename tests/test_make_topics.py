"""The script that made the built-in log, on titles whose topics are evident."""

import doctest

from benchmarks import make_topics
from benchmarks.make_topics import Row, Written, make


def titles() -> dict[str, set[Written]]:
    """Return ten titles on black holes and ten on tea leaves, all by author 1, a month apart."""
    subjects = ("Black holes", "A black hole", "On tea leaves")
    wanted = [f"{subjects[min(n % 4, 2)]} and $x_{n}$ {'qrstuvwxyz'[n % 10]}" for n in range(40)]
    return {
        title: {Written("1", f"{2000 + n // 12}-{n % 12 + 1:02d}-01")}
        for n, title in enumerate(wanted)
    }


def test_the_worked_values_hold() -> None:
    assert doctest.testmod(make_topics).failed == 0


def test_a_title_becomes_its_phrase_and_singular_and_plural_are_one_topic() -> None:
    rows = make(titles())
    assert len(rows) == 40
    assert {row.query for row in rows} in (
        {"black holes", "tea leaves"},
        {"black hole", "tea leaves"},
    )
    assert {row.session_id for row in rows} == {"1-1"}
    assert [row.time for row in rows] == sorted(row.time for row in rows)


def test_a_year_of_silence_ends_a_session() -> None:
    known = titles()
    known["Black holes again"] = {Written("1", "2010-01-01")}
    assert make(known)[-1] == Row("1-2", 1, "2010-01-01", make(known)[0].query)


def test_one_author_gets_a_title_and_a_title_without_a_phrase_is_left_out() -> None:
    known = titles()
    known["Black holes of three"] = {Written(str(n), "2001-01-01") for n in (2, 3, 4)}
    known["Remarks"] = {Written("9", "2001-01-01")}
    rows = make(known)
    assert len(rows) == 41
    assert len([row for row in rows if row.user_id in (2, 3, 4)]) == 1
    assert not [row for row in rows if row.user_id == 9]
