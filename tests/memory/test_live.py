"""Live sessions: the same memory as the log's, in bounded space, with a half-life, and saved."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.memory import LiveMemory, Memory, Moment, Recalled, SessionMemory
from nextquery.sessions import Sessions
from tests.memory.by_hand import (
    ARMS,
    DAY,
    HISTORIES,
    LOGS,
    Log,
    Query,
    as_dicts,
    as_sessions,
    match_weights,
    recalled,
    support,
)

ALL: dict[str, Any] = {"most": 10_000, "earlier": 10_000}
HALF_LIVES = st.sampled_from([None, 10 / DAY, 0.5])
NOW = 100.0


def played(log: Log, half_life: float | None = None, rows: int = 1000) -> LiveMemory:
    """Return a live memory in which the log happened, query by query, by the clock."""
    live = LiveMemory(rows, half_life)
    steps = [
        (query.time, row, at) for row, session in enumerate(log) for at, query in enumerate(session)
    ]
    for time, row, at in sorted(steps):
        live.add(log[row][at].arm, [query.arm for query in log[row][:at]], time)
    return live


@given(LOGS, HISTORIES, HALF_LIVES)
def test_live_and_past_are_the_same_memory(
    log: Log, history: list[int], half_life: float | None
) -> None:
    live, past = played(log, half_life), SessionMemory(as_sessions(log), half_life)
    arms, weights = np.arange(ARMS + 1), list(np.linspace(0.1, 2.0, len(history)))
    of_past = past.support(arms, len(past), NOW)
    np.testing.assert_allclose(live.support(arms, NOW), of_past, rtol=1e-12)
    options: dict[str, Any] = {"weights": weights, "now": NOW, **ALL}
    from_live = Recalled.of([live.mentions(history, **options)])
    from_past = Recalled.of([past.mentions(history, len(past), **options)])
    for actual, expected in zip(from_live, from_past, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


@given(LOGS, HISTORIES, HALF_LIVES, st.sampled_from(["past", "live"]))
def test_what_is_old_counts_less(
    log: Log, history: list[int], half_life: float | None, where: str
) -> None:
    """A query counts 2^(−age / half-life), in both memories."""
    at, newest = Moment(NOW), history[-8:]
    memory = Memory(as_sessions(log) if where == "past" else None, half_life=half_life)
    if where == "live":
        memory.live = played(log, half_life)
    faded: dict[str, Any] = {"now": NOW, "half_life": half_life}
    counted = [support(log, arm, now=NOW, half_life=half_life) for arm in range(ARMS + 1)]
    np.testing.assert_allclose(memory.support(np.arange(ARMS + 1), at=at), counted, rtol=1e-9)
    weights = match_weights(log, newest, now=NOW, half_life=half_life)
    expected = recalled(log, newest, weights=weights, **faded)
    found = as_dicts(memory.recall(history, at=at))
    for name, row in expected.items():
        assert found[name] == pytest.approx(row, rel=1e-9)


@given(LOGS, st.integers(1, 60).map(float))
def test_support_fades_as_of_any_moment_of_the_past(log: Log, time: float) -> None:
    half_life = 3 / DAY  # three seconds: the log has many half-lives
    memory = Memory(as_sessions(log), half_life=half_life)
    at = Moment(time, memory.past.position(time))
    known = [[query for query in session if query.time < time] for session in log]
    counted = [support(known, arm, now=time, half_life=half_life) for arm in range(ARMS)]
    np.testing.assert_allclose(memory.support(np.arange(ARMS), at=at), counted, rtol=1e-9)


def test_support_of_long_ago_is_exact_after_a_thousand_half_lives() -> None:
    log = [[Query(0, 1.0)], [Query(1, 2.0)], [Query(0, 1000 * DAY)]]
    memory = Memory(as_sessions(log), half_life=1.0)
    assert memory.support(np.array([0, 1]), at=Moment(1.0 + DAY, 2)).tolist() == pytest.approx(
        [0.5, 0.5], rel=1e-4
    )
    assert memory.support(np.array([0]), at=Moment(1001 * DAY)).tolist() == [0.5]


def test_without_a_clock_nothing_fades() -> None:
    memory = Memory(as_sessions([[Query(0, 1.0), Query(1, 2.0)]]), half_life=1e-6)
    memory.add(1, [0], 3.0)
    assert memory.support(np.array([0, 1])).tolist() == [1.0, 2.0]
    assert as_dicts(memory.recall([0]))["follows"] == {1: 2.0}


def test_sessions_without_times_do_not_fade() -> None:
    memory = SessionMemory(Sessions.of([[0, 1]]), half_life=1.0)
    assert memory.half_life is None
    assert memory.support(np.array([0]), 2, now=1e12).tolist() == [1.0]


def test_the_oldest_rows_are_forgotten() -> None:
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


@given(LOGS, LOGS, HISTORIES, HALF_LIVES, st.sampled_from([3, 1000]))
def test_a_saved_memory_goes_on_exactly(
    log: Log, more: Log, history: list[int], half_life: float | None, rows: int
) -> None:
    live = played(log, half_life, rows)
    twins = [live.copy(), LiveMemory.from_state(live.state())]
    before = live.state()
    for session in more:
        for query in session:
            for memory in twins:
                memory.add(query.arm, history, query.time)
    assert _same(before, live.state())  # what the copy learnt, the original did not
    assert _same(twins[0].state(), twins[1].state())
    one, two = (memory.mentions(history, now=NOW, **ALL) for memory in twins)
    for actual, expected in zip(one, two, strict=True):
        np.testing.assert_array_equal(actual, expected)


def _same(one: dict[str, np.ndarray], two: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(one[name], two[name]) for name in one)
