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
