"""Past steps by the clock: in order, each with what was known then, and nothing later."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nextquery as nq
from nextquery.memory import Memory
from nextquery.warm_start import PastStep, Steps, places_with_next, walk, warm_start
from tests.few_examples import few
from tests.memory.by_hand import ARMS, LOGS, Log, Query, as_sessions

POOL = nq.ArmPool.from_vectors(
    [f"q{arm}" for arm in range(ARMS + 1)], np.random.default_rng(0).normal(size=(ARMS + 1, 4))
)
NAMES = ["ann", "bob"]


def memory_of(log: Log) -> Memory:
    return Memory(as_sessions(log, [number % 2 for number in range(len(log))]), names=NAMES)


def recommender(memory: Memory, **options: Any) -> nq.Recommender:
    policy = nq.policy("lin-ucb-memory")
    return nq.Recommender(POOL, nq.MaxUtility(k=4), policy, memory=memory, **options)


@given(LOGS)
def test_steps_are_in_order_of_time_and_know_what_came_before(log: Log) -> None:
    memory = memory_of(log)
    flat = [(query, s, at) for s, session in enumerate(log) for at, query in enumerate(session)]
    with_next = [place for place, (_, s, at) in enumerate(flat) if at + 1 < len(log[s])]
    assert places_with_next(memory.past).tolist() == with_next
    steps = Steps.of(memory.past, places_with_next(memory.past), ARMS)
    times = [flat[place][0].time for place in steps.places.tolist()]
    assert times == sorted(times)
    assert sorted(steps.places.tolist()) == with_next
    for at, place in enumerate(steps.places.tolist()):
        query, session, number = flat[place]
        moment = steps.moment(at)
        assert moment.time == query.time
        assert moment.before == sum(other.time < query.time for other, _, _ in flat)
        visit = steps.session_state(place, NAMES)
        history = tuple(earlier.arm for earlier in log[session][:number])
        assert (visit.history, visit.trial) == (history, number)
        assert visit.person == NAMES[session % 2]
        assert visit.previous == (history[-1] if history else None)


def seen_steps(rec: nq.Recommender, upto: float) -> list[PastStep]:
    """Return the steps before a time, as the loop would have seen them."""
    past = rec.memory.past
    steps = Steps.of(past, places_with_next(past), POOL.rows_in_all)
    return [step for step in walk(rec, steps) if step.time < upto]


def other_future(session: list[Query], time: float) -> list[Query]:
    """Return a session with other queries from a time on, none of which repeats the one before."""
    changed: list[Query] = []
    for query in session:
        if query.time >= time:
            before = changed[-1].arm if changed else None
            arm = next(arm for arm in (ARMS - query.arm, ARMS, 0) if arm != before)
            query = Query(arm, query.time + 1)
        changed.append(query)
    return changed


@settings(max_examples=few(12))
@given(LOGS, st.integers(2, 40).map(float))
def test_another_future_changes_no_step(log: Log, time: float) -> None:
    other = [other_future(session, time) for session in log]
    one, two = (seen_steps(recommender(memory_of(rows)), time) for rows in (log, other))
    assert len(one) == len(two)
    for first, second in zip(one, two, strict=True):
        assert first.candidates.arms.tolist() == second.candidates.arms.tolist()
        assert first.candidates.features is not None
        assert second.candidates.features is not None
        np.testing.assert_array_equal(first.candidates.features, second.candidates.features)


@settings(max_examples=few(20))
@given(LOGS)
def test_a_query_that_is_repeated_is_one_query(log: Log) -> None:
    twice = [[query for query in session for _ in range(2)] for session in log]
    once, repeated = recommender(memory_of(log)), recommender(memory_of(twice))
    assert once.warm_start() == repeated.warm_start()
    for name, array in once.policy.state().items():
        np.testing.assert_array_equal(array, repeated.policy.state()[name])


@settings(max_examples=few(12))
@given(LOGS)
def test_only_arms_that_were_asked_before_are_candidates(log: Log) -> None:
    rec = recommender(memory_of(log))
    for step in seen_steps(rec, np.inf):
        known = {query.arm for session in log for query in session if query.time < step.time}
        assert set(step.candidates.arms.tolist()) <= known | set(step.context.history)


def test_the_newest_sessions_are_learnt_and_the_newest_fifth_calibrates() -> None:
    log = [[Query(s % 5, 10.0 * s), Query(s % 5 + 1, 10.0 * s + 1)] for s in range(100)]
    rec = recommender(memory_of(log))
    past = rec.memory.past
    steps = Steps.newest(past, 30, POOL.rows_in_all, memory=True)
    assert steps.places.tolist() == list(range(140, 200, 2))
    assert len(Steps.newest(past, 1000, POOL.rows_in_all, memory=True).places) == 80
    assert len(Steps.newest(past, 1000, POOL.rows_in_all, memory=False).places) == 100
    assert len(Steps.newest(past, 0, POOL.rows_in_all, memory=True).places) == 0
    done = warm_start(rec, past, newest=30)
    assert (done.steps, done.floor) == (24, 0.0)
    assert rec.model_state.calibration
    assert len(rec.memory.people) == rec.memory.live.count == 0  # it only learns weights


def test_own_queries_teach_their_weight() -> None:
    """Everybody repeats their own two queries, so the warm start learns that own ones come next."""
    rng, log = np.random.default_rng(0), []
    for session in range(200):
        person = session % 4
        first, then = rng.permutation([2 * person, 2 * person + 1]).tolist()
        log.append([Query(first, 10.0 * session), Query(then, 10.0 * session + 1)])
    sessions = as_sessions(log, [session % 4 for session in range(200)])
    memory = Memory(sessions, names=["a", "b", "c", "d"])
    rec = nq.Recommender(
        POOL, nq.MaxUtility(k=1), nq.policy("lin-ucb-memory"), memory=memory, clock=lambda: 3000.0
    )
    rec.warm_start()
    for person, name in enumerate("abcd"):
        choice = rec.start(f"q{2 * person}", person=name).recommend()
        assert choice is not None
        assert choice.arm == 2 * person + 1


def test_a_session_without_a_clock_is_learnt_in_its_order() -> None:
    sessions = as_sessions([[Query(0, 1.0), Query(1, 2.0)]] * 10, timed=False)
    rec = recommender(Memory(replace_times(sessions)))
    steps = Steps.newest(rec.memory.past, 1000, POOL.rows_in_all, memory=True)
    assert steps.known.tolist() == list(range(4, 20, 2))
    assert [steps.moment(at).time for at in range(8)] == [0.0] * 8
    assert rec.warm_start() == 7  # seven of eight steps; one calibrates


def replace_times(sessions: nq.Sessions) -> nq.Sessions:
    return sessions._replace(times=np.full(sessions.size, np.nan))


@pytest.mark.parametrize("half_life", [None, 1.0])
def test_a_warm_start_is_repeatable(half_life: float | None) -> None:
    log = [[Query(s % 5, 10.0 * s + 1), Query(s % 3 + 1, 10.0 * s + 2)] for s in range(60)]
    states = []
    for _ in range(2):
        memory = Memory(as_sessions(log), half_life=half_life)
        rec = recommender(memory)
        rec.warm_start()
        states.append(rec.policy.state())
    assert states[0].keys() == states[1].keys()
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])
