import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.encode import Sessions
from nextquery.errors import InvalidInput

LISTS = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=8)


def as_lists(sessions: Sessions) -> list[list[int]]:
    return [part.tolist() for part in np.split(sessions.arms, sessions.offsets[1:-1])][
        : sessions.size
    ]


@given(LISTS)
def test_two_arrays_say_what_the_lists_said(sessions: list[list[int]]) -> None:
    arrays = Sessions.of(sessions, 10)
    assert arrays.size == len(sessions)
    assert as_lists(arrays) == sessions
    assert as_lists(Sessions.of(arrays, 10)) == sessions


@given(LISTS, st.data())
def test_take_where_and_distinct(sessions: list[list[int]], data: st.DataObject) -> None:
    arrays = Sessions.of(sessions)
    which = data.draw(
        st.lists(st.integers(0, max(0, len(sessions) - 1)), max_size=9 * bool(sessions))
    )
    assert as_lists(arrays.take(np.array(which, np.int64))) == [sessions[i] for i in which]
    keep = np.arange(10) % 3 > 0
    assert as_lists(arrays.where(keep)) == [[a for a in s if keep[a]] for s in sessions]
    assert as_lists(arrays.distinct()) == [list(dict.fromkeys(s)) for s in sessions]


@st.composite
def timed(draw: st.DrawFn) -> Sessions:
    """Draw sessions with times and people, in no order."""
    lists = draw(LISTS)
    sessions = Sessions.of(lists)
    times = [draw(st.integers(0, 20)) for _ in lists]
    asked = [
        time + pause
        for time, queries in zip(times, lists, strict=True)
        for pause in sorted(draw(st.integers(0, 9)) for _ in queries)
    ]
    people = [draw(st.integers(-1, 3)) for _ in lists]
    return Sessions(
        sessions.arms,
        sessions.offsets,
        np.array(times, np.float64),
        np.array(asked, np.float64),
        np.array(people, np.int64),
    )


Rows = list[tuple[float, int, list[tuple[int, float]]]]


def as_rows(sessions: Sessions) -> Rows:
    """Return every session as its time, its person, and its queries with their times."""
    asked = np.split(sessions.asked, sessions.offsets[1:-1])[: sessions.size]
    queries = [
        list(zip(arms, times.tolist(), strict=True))
        for arms, times in zip(as_lists(sessions), asked, strict=True)
    ]
    return list(zip(sessions.times.tolist(), sessions.people.tolist(), queries, strict=True))


@given(timed(), st.data())
def test_times_and_people_stay_with_their_queries(sessions: Sessions, data: st.DataObject) -> None:
    rows, size = as_rows(sessions), sessions.size
    assert sessions.timed
    assert as_rows(Sessions.of(sessions)) == rows
    which = data.draw(st.lists(st.integers(0, max(0, size - 1)), max_size=9 * bool(size)))
    assert as_rows(sessions.take(np.array(which, np.int64))) == [rows[i] for i in which]
    ordered = sorted(rows, key=lambda row: row[0])
    assert as_rows(sessions.in_order_of_time()) == ordered
    most = data.draw(st.integers(0, 9))
    assert as_rows(sessions.newest(most)) == ordered[max(0, size - most) :]
    keep = np.arange(10) % 3 > 0
    kept = [(t, p, [(a, s) for a, s in queries if keep[a]]) for t, p, queries in rows]
    assert as_rows(sessions.where(keep)) == kept
    time = float(data.draw(st.integers(0, 30)))
    known = [(t, p, [(a, s) for a, s in queries if s < time]) for t, p, queries in rows]
    assert as_rows(sessions.before(time)) == [row for row in known if row[2]]
    first = [
        (t, p, [q for i, q in enumerate(queries) if q[0] not in [a for a, _ in queries[:i]]])
        for t, p, queries in rows
    ]
    assert as_rows(sessions.distinct()) == first


def test_one_unknown_time_is_no_clock() -> None:
    sessions = Sessions.of([[0, 1]])
    assert not sessions.timed
    assert sessions._replace(asked=np.array([1.0, 2.0])).timed
    assert not sessions._replace(asked=np.array([1.0, np.nan])).timed


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("times", np.zeros(3), r"times must have one number per session, 2, .* shape \(3,\)"),
        ("asked", np.zeros(2), r"asked must have one number per query, 3, .* shape \(2,\)"),
        ("people", np.zeros(1, np.int64), r"people must have one number per session, 2"),
    ],
)
def test_refuses_rows_of_another_length(name: str, row: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Sessions.of(Sessions.of([[0, 1], [2]])._replace(**{name: row}))


@pytest.mark.parametrize(
    ("sessions", "message"),
    [
        ([[0, 3]], "contain query 3; ids must be from 0 to 2"),
        ([[-1]], "contain query -1"),
        ([["cat"]], "whole numbers"),
        ([[0.5]], "received float64"),
        (Sessions(np.arange(3), np.array([0, 2])), "offsets must rise from 0 to 3"),
        (Sessions(np.arange(3), np.array([0, 2, 1, 3])), "offsets must rise"),
        (Sessions(np.arange(3), np.array([], np.int64)), "offsets must rise"),
    ],
)
def test_refuses_what_is_no_session(sessions: Sessions, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Sessions.of(sessions, 3)
