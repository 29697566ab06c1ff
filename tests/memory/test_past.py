"""The memory of earlier sessions against counting by hand."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from nextquery.memory import LiveMemory, Memory, Moment, Recalled, SessionMemory
from nextquery.sessions import Sessions
from tests.memory.by_hand import Query, as_dicts, recalled
from tests.research.replay.worlds import small_world

ALL: dict[str, Any] = {"most": 10_000, "earlier": 10_000}


@pytest.fixture
def past() -> Sessions:
    return small_world(sessions=60, arms=20)[1]


def test_support(past: Sessions) -> None:
    memory = SessionMemory(past)
    for before in (0, 7, 100, len(past.arms)):
        counted = Counter(past.arms[:before].tolist())
        assert memory.support(np.arange(25), before).tolist() == [counted[a] for a in range(25)]


@pytest.mark.parametrize("limits", [ALL, {"most": 4, "earlier": 2}])
@pytest.mark.parametrize("history", [[3], [1, 2], [4, 5, 4], [0, 99, 7], [99], []])
def test_recall_is_counting(past: Sessions, history: list[int], limits: dict[str, Any]) -> None:
    memory, before = SessionMemory(past), int(past.offsets[40])
    found = as_dicts(Recalled.of([memory.mentions(history, before, **limits)]))
    log = [[Query(arm, at) for arm in s.tolist()] for at, s in enumerate(past.lists()[:40])]
    expected = recalled(log, history, **limits)
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        assert found[name] == pytest.approx(row)


def test_every_pair_that_followed_is_found(past: Sessions) -> None:
    memory, sessions = SessionMemory(past), [s.tolist() for s in past.lists()]
    for session in sessions:
        for end in range(2, len(session)):
            found = Recalled.of([memory.mentions(session[:end], len(past.arms), **ALL)])
            assert as_dicts(found)["longer"][session[end]] >= 1.0


def test_followers_and_later_are_counting(past: Sessions) -> None:
    memory, before = SessionMemory(past), int(past.offsets[40])
    sessions = [s.tolist() for s in past.lists()[:40]]
    for arm in range(20):
        places = [(s, at) for s in sessions for at, query in enumerate(s) if query == arm]
        following = [s[at + 1] for s, at in places if at + 1 < len(s)]
        assert Counter(memory.followers([arm], before, most=999).tolist()) == Counter(following)
        pairs = [(s[at + d], d) for s, at in places for d in (1, 2) if at + d < len(s)]
        arms, steps = memory.later(arm, before, steps=2, most=999)
        assert Counter(zip(arms.tolist(), steps.tolist(), strict=True)) == Counter(pairs)


def test_past_and_live_are_one_memory() -> None:
    memory = Memory(Sessions.of([[1, 2], [1, 3]]))
    memory.add(3, history=[1])
    memory.add(77, history=[1, 3])
    found = memory.recall([1])
    assert as_dicts(found)["follows"] == {2: 1.0, 3: 2.0}
    assert memory.support(np.array([1, 3, 77])).tolist() == [2, 2, 1]
    assert as_dicts(memory.recall([1], running=False))["follows"] == {}
    at = Moment(before=2)  # nothing later, and nothing live
    assert as_dicts(memory.recall([1], at=at))["follows"] == {2: 1.0}
    assert memory.support(np.array([1, 3, 77]), at=at).tolist() == [1, 0, 0]
    assert len(Memory().recall([1]).arms) == 0


def test_recall_looks_at_few_places_however_often_a_query_was_asked() -> None:
    often = Memory(Sessions.of([[0, 1]] * 5000))
    for _ in range(400):
        often.add(1, history=[0])
    assert as_dicts(often.recall([0]))["follows"] == {1: 600.0}  # the newest 300 of each
    assert often.support(np.array([0, 1])).tolist() == [5000, 5400]


def test_a_query_in_a_log_with_an_unknown_time_is_known_in_the_order_of_the_log() -> None:
    sessions = Sessions.of([[1, 2], [1, 3]])._replace(asked=np.array([5.0, np.nan, 1.0, 2.0]))
    memory = SessionMemory(sessions)
    assert not memory.timed
    assert memory.known_at(np.arange(4)).tolist() == [0, 0, 2, 2]
    assert memory.followers([1], before=2, most=9).tolist() == [2]
    assert LiveMemory().support(np.array([1])).tolist() == [0.0]
