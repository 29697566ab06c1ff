"""The memory of earlier sessions against counting by hand."""

from collections import Counter

import numpy as np
import pytest

from nextquery.memory import LiveMemory, Memory, Recalled, SessionMemory
from nextquery.sessions import Sessions
from tests.replay.worlds import small_world

ALL = {"most": 10_000, "earlier": 10_000}


@pytest.fixture
def past() -> Sessions:
    return small_world(sessions=60, arms=20)[1]


def as_dicts(recalled: Recalled) -> list[dict[int, float]]:
    """Return followers, longer and near by arm, without zeros."""
    arms = recalled.arms.tolist()
    return [
        {arm: weight for arm, weight in zip(arms, row.tolist(), strict=True) if weight}
        for row in recalled[1:]
    ]


def by_hand(
    sessions: list[list[int]], history: list[int], *, most: int, earlier: int
) -> list[dict[int, float]]:
    """Count followers, longer and near at the newest places of a session's queries."""
    followers, longer, near = Counter[int](), Counter[int](), Counter[int]()
    for number, arm in enumerate(history):
        last = number == len(history) - 1
        places = [(s, at) for s in sessions for at, query in enumerate(s) if query == arm]
        for session, at in places[::-1][: most if last else earlier]:
            for other, query in enumerate(session):
                if other != at and abs(other - at) <= 5:
                    near[query] += 1 / abs(other - at)  # type: ignore[assignment]
            if last and at + 1 < len(session):
                followers[session[at + 1]] += 1
                if at and len(history) > 1 and session[at - 1] == history[-2]:
                    longer[session[at + 1]] += 1
    return [{a: float(w) for a, w in row.items()} for row in (followers, longer, near)]


def test_support(past: Sessions) -> None:
    memory = SessionMemory(past)
    for before in (0, 7, 100, len(past.arms)):
        counted = Counter(past.arms[:before].tolist())
        assert memory.support(np.arange(25), before).tolist() == [counted[a] for a in range(25)]


@pytest.mark.parametrize("limits", [ALL, {"most": 4, "earlier": 2}])
@pytest.mark.parametrize("history", [[3], [1, 2], [4, 5, 4], [0, 99, 7], [99], []])
def test_recall_is_counting(past: Sessions, history: list[int], limits: dict[str, int]) -> None:
    memory, before = SessionMemory(past), int(past.offsets[40])
    found = as_dicts(Recalled.of([memory.mentions(history, before, **limits)]))
    expected = by_hand([s.tolist() for s in past.lists()[:40]], history, **limits)
    assert [row.keys() for row in found] == [row.keys() for row in expected]
    for row, expected_row in zip(found, expected, strict=True):
        assert row == pytest.approx(expected_row)


def test_every_pair_that_followed_is_found(past: Sessions) -> None:
    memory, sessions = SessionMemory(past), [s.tolist() for s in past.lists()]
    for session in sessions:
        for end in range(2, len(session)):
            recalled = Recalled.of([memory.mentions(session[:end], len(past.arms), **ALL)])
            assert as_dicts(recalled)[1][session[end]] >= 1.0


def test_live_memory_counts_as_the_past_does(rng: np.random.Generator) -> None:
    """The same sessions give the same memory, live or read from a log."""
    sessions = [rng.permutation(12)[: int(rng.integers(1, 9))].tolist() for _ in range(40)]
    live, past = LiveMemory(), SessionMemory(Sessions.of(sessions))
    for session in sessions:
        for at, arm in enumerate(session):
            live.add(arm, session[:at])
    assert np.array_equal(live.support(np.arange(14)), past.support(np.arange(14), len(past)))
    for history in ([3], [1, 2], [4, 5, 6]):
        from_live = Recalled.of([live.mentions(history, **ALL)])
        from_past = Recalled.of([past.mentions(history, len(past), **ALL)])
        for actual, expected in zip(from_live, from_past, strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_live_memory_forgets_its_oldest_rows() -> None:
    small, whole = LiveMemory(rows=5), LiveMemory()
    for arm in range(20):
        small.add(arm, [arm - 1] if arm else [])
        whole.add(arm, [arm - 1] if arm else [])

    def near(memory: LiveMemory, arm: int) -> list[int]:
        arms: list[int] = memory.mentions([arm], most=9, earlier=9).near.tolist()
        return arms

    assert near(small, 3) == []
    assert near(small, 17) == near(whole, 17) != []
    again = LiveMemory.from_state(small.state())
    again.add(3, [17])
    small.add(3, [17])
    assert near(again, 17) == near(small, 17)
    assert len(small._arms) <= 64


def test_past_and_live_are_one_memory() -> None:
    memory = Memory(Sessions.of([[1, 2], [1, 3]]))
    memory.add(3, history=[1])
    memory.add(77, history=[1, 3])
    recalled = memory.recall([1])
    assert as_dicts(recalled)[0] == {2: 1.0, 3: 2.0}
    assert memory.support(np.array([1, 3, 77])).tolist() == [2, 2, 1]
    assert as_dicts(memory.recall([1], running=False))[0] == {}
    then = memory.recall([1], before=2)  # nothing later, and nothing live
    assert as_dicts(then)[0] == {2: 1.0}
    assert memory.support(np.array([1, 3, 77]), before=2).tolist() == [1, 0, 0]
    assert len(Memory().recall([1]).arms) == 0


def test_recall_looks_at_few_places_however_often_a_query_was_asked() -> None:
    often = Memory(Sessions.of([[0, 1]] * 5000))
    for _ in range(400):
        often.add(1, history=[0])
    recalled = often.recall([0])
    assert as_dicts(recalled)[0] == {1: 600.0}  # the newest 300 of each
    assert often.support(np.array([0, 1])).tolist() == [5000, 5400]
