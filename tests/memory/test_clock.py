"""The clock decides what is known: nothing dated at or after a moment changes anything."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.memory import Memory, Moment, with_memory
from nextquery.selection import Candidates
from nextquery.sessions import Sessions
from tests.memory.by_hand import (
    ARMS,
    HISTORIES,
    LOGS,
    Log,
    Query,
    as_dicts,
    as_sessions,
    before,
    match_weights,
    recalled,
    support,
)

TIMES = st.integers(1, 60).map(float)
NAMES = ["ann", "bob"]
POOL = nq.ArmPool.from_vectors(
    [f"q{arm}" for arm in range(ARMS + 1)], np.random.default_rng(0).normal(size=(ARMS + 1, 4))
)


def at_time(memory: Memory, time: float) -> Moment:
    return Moment(time, memory.past.position(time))


def features(memory: Memory, history: list[int], time: float, person: str) -> Candidates:
    """Return the candidates of a step with all their features, as the loop does."""
    at, current = at_time(memory, time), history[-1] if history else None
    arms = np.array([1, 3, 5])
    similarities = np.array([0.3, 0.2, 0.1])
    selected = Candidates(arms, POOL.rows(arms), similarities, similarities)
    own = memory.own(person, current, at=at, own_id=lambda text: -1)
    return with_memory(
        selected, POOL, POOL.rows([0])[0], memory, history, returns=history[:-1], own=own, at=at
    )


@given(LOGS, HISTORIES, TIMES)
def test_recall_at_a_moment_is_counting(log: Log, history: list[int], time: float) -> None:
    memory, known = Memory(as_sessions(log)), before(log, time)
    at, newest = at_time(memory, time), history[-8:]
    assert at.before == sum(map(len, known))
    weights = match_weights(known, newest, now=time)
    expected = recalled(known, newest, weights=weights, now=time)
    found = as_dicts(memory.recall(history, at=at))
    assert found.keys() == expected.keys()
    for name, row in expected.items():
        assert found[name] == pytest.approx(row)
    counted = [support(known, arm, now=time) for arm in range(ARMS + 1)]
    assert memory.support(np.arange(ARMS + 1), at=at).tolist() == counted


def changed(log: Log, time: float, how: str) -> Log:
    """Return the log with another future: other arms, later times, or none of it."""
    if how == "deleted":
        return before(log, time)

    def other(query: Query) -> Query:
        if query.time < time:
            return query
        if how == "other arms":
            return Query(ARMS - query.arm, query.time)
        return Query(query.arm, query.time + 100)

    return [[other(query) for query in session] for session in log]


@pytest.mark.parametrize("how", ["deleted", "other arms", "later"])
@given(log=LOGS, history=HISTORIES, time=TIMES, half_life=st.sampled_from([None, 1e-4]))
def test_another_future_changes_nothing(
    how: str, log: Log, history: list[int], time: float, half_life: float | None
) -> None:
    one, two = (
        Memory(
            as_sessions(rows, [number % 2 for number in range(len(rows))]),
            names=NAMES,
            half_life=half_life,
        )
        for rows in (log, changed(log, time, how))
    )
    for person in NAMES:
        first, second = (features(memory, history, time, person) for memory in (one, two))
        assert first.arms.tolist() == second.arms.tolist()
        assert first.features is not None
        assert second.features is not None
        np.testing.assert_array_equal(first.features, second.features)
    first_seen, second_seen = (
        memory.support(np.arange(ARMS), at=at_time(memory, time)) for memory in (one, two)
    )
    np.testing.assert_array_equal(first_seen, second_seen)


def test_deleting_the_future_keeps_the_people_of_the_sessions() -> None:
    """`changed` numbers people by session, so a session that began must not change its number."""
    log = [[Query(0, 1.0)], [Query(1, 2.0), Query(2, 9.0)], [Query(3, 9.0)]]
    assert len(before(log, 9.0)) == 2


@given(LOGS)
def test_queries_of_one_time_do_not_know_of_each_other(log: Log) -> None:
    past = Memory(as_sessions(log)).past
    times = np.array([query.time for session in log for query in session])
    known = past.known_at(np.arange(len(past)))
    assert known.tolist() == [int((times < time).sum()) for time in times]
    assert sorted(past.positions.tolist()) == list(range(len(past)))
    for place, position in enumerate(past.positions.tolist()):
        assert (times < times[place]).sum() <= position < (times <= times[place]).sum()


@given(LOGS, HISTORIES, st.integers(0, 8))
def test_without_times_sessions_follow_one_another(
    log: Log, history: list[int], number: int
) -> None:
    sessions = as_sessions(log, timed=False)
    memory, end = Memory(sessions), int(sessions.offsets[min(number, sessions.size)])
    known, newest = log[:number], history[-8:]
    plain = [[Query(query.arm, 0.0) for query in session] for session in known]
    weights = match_weights(plain, newest, now=0.0)
    expected = recalled(plain, newest, weights=weights)
    found = as_dicts(memory.recall(history, at=Moment(before=end)))
    for name, row in expected.items():
        assert found[name] == pytest.approx(row)
    for place in range(end):
        session = int(np.searchsorted(sessions.offsets, place, side="right")) - 1
        assert memory.past.known_at(np.array([place])).tolist() == [sessions.offsets[session]]


@given(LOGS, TIMES)
def test_what_was_known_at_a_time(log: Log, time: float) -> None:
    kept, expected = as_sessions(log).before(time), as_sessions(before(log, time))
    assert kept.arms.tolist() == expected.arms.tolist()
    assert kept.offsets.tolist() == expected.offsets.tolist()
    assert kept.asked.tolist() == expected.asked.tolist()
    assert Sessions.of(kept).timed
