"""The model goes back to what it was at a position, and forward again."""

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.events import By, RolledBack
from nextquery.service.log.store import Clock, Store
from nextquery.service.log.teaching import RollBack, RollBacks
from nextquery.service.log.writer import Writer
from nextquery.service.maintain.repair import difference, rebuild
from nextquery.service.model.learner import rebuilt
from nextquery.service.model.state import State
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, options, until

BY = By("key", "ops")


def clicks(engine: Engine, name: str, count: int = 6) -> int:
    """Let people click; return the position of the last click."""
    for number in range(count):
        slate = engine.recommend(session_id=f"{name}{number}", query=TEXTS[number + len(name)])
        arm = slate.recommendations[number % 3].arm
        engine.feedback(decision_id=slate.decision_id, accepted=arm)
    return caught_up(engine).learner.position


def settled(engine: Engine) -> State:
    """Return the state once it has been computed again."""
    assert until(lambda: not caught_up(engine).learner.state.stale)
    return engine.learner.state


def learnt(state: State) -> dict[str, object]:
    return {**state.model_state.policy.state(), **state.model_state.live.state()}


def same(one: dict[str, object], other: dict[str, object]) -> bool:
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)  # type: ignore[arg-type]


def test_back_to_any_position_and_forward_again(store: Store, start: Start) -> None:
    engine, other = start(store), start(store, snapshot_every=3)
    first = clicks(engine, "a")
    open_then = engine.recommend(session_id="open", query=TEXTS[30])
    clicks(engine, "bb")
    everything = learnt(engine.learner.state)
    back = engine.roll_back(first, BY)
    for worker in (engine, other):
        assert same(learnt(settled(worker)), learnt(rebuilt(store, until=first)))
    arm = open_then.recommendations[0].arm
    engine.feedback(decision_id=open_then.decision_id, accepted=arm)  # of a model that is gone
    assert same(learnt(settled(engine)), learnt(rebuilt(store, until=first)))
    assert engine.learner.state.statistics.totals()["accepted"] == 13  # what happened stays
    clicks(engine, "ccc", 2)  # learning goes on from there
    updates = engine.learner.state.model_state.policy.updates_since(
        rebuilt(store, until=first).model_state.policy
    )
    assert updates == 2
    assert (
        engine.learner.state.model_state.live.count
        == rebuilt(store, until=first).model_state.live.count + 2
    )
    assert difference(engine.learner.state, rebuilt(store)) == 0.0
    assert engine.forward(BY) > back
    for worker in (engine, other):
        state = settled(worker)
        assert not state.roll_backs.in_force
        base = rebuilt(store, until=first).model_state.policy
        assert (
            state.model_state.policy.updates_since(base) == 9
        )  # as if there had been no roll-back
    assert not same(learnt(engine.learner.state), everything)
    for worker in (engine, other):
        worker.close()
    assert rebuild(store).agrees
    again = start(store)
    assert difference(again.learner.state, engine.learner.state) == 0.0


def test_a_restart_in_the_middle_reproduces_it(store: Store, start: Start) -> None:
    engine = start(store)
    first = clicks(engine, "a")
    clicks(engine, "bb")
    engine.close()  # with a snapshot of everything
    writer = Writer(store, Clock(), written=lambda: None)
    writer.submit(RollBack(first, BY)).result()
    writer.close()
    again = start(store)
    assert same(learnt(again.learner.state), learnt(rebuilt(store, until=first)))
    clicks(again, "ccc", 2)
    again.close()
    from_snapshot = start(store)
    assert difference(from_snapshot.learner.state, rebuilt(store)) == 0.0
    in_force = again.learner.state.roll_backs.in_force
    assert from_snapshot.learner.state.roll_backs.in_force == in_force
    assert [to for _, to in in_force] == [first]


def test_an_earlier_roll_back_ends_with_a_later_one_to_before_it(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite)
    first = clicks(engine, "a")
    second = clicks(engine, "bb")
    as_of_second = learnt(engine.learner.state)
    one = engine.roll_back(first, BY)
    settled(engine)
    two = engine.roll_back(second, BY)  # there, nobody had rolled back
    assert same(learnt(settled(engine)), as_of_second)
    assert engine.learner.state.roll_backs.in_force == [(two, second)]
    engine.forward(BY)
    assert engine.learner.state.roll_backs.in_force == [(one, first)]
    assert same(learnt(settled(engine)), learnt(rebuilt(sqlite, until=first)))
    engine.forward(BY)
    assert same(learnt(settled(engine)), as_of_second)
    with pytest.raises(InvalidInput, match="no roll-back is in force"):
        engine.forward(BY)


def test_back_to_a_position_where_a_roll_back_was_in_force_that_has_ended_since(
    sqlite: Store, start: Start
) -> None:
    engine = start(sqlite)
    first = clicks(engine, "a", 2)
    clicks(engine, "bb", 2)
    one = engine.roll_back(first, BY)
    settled(engine)
    then, as_of_then = clicks(engine, "ccc", 2), learnt(engine.learner.state)
    engine.forward(BY)
    settled(engine)
    two = engine.roll_back(then, BY)
    assert same(learnt(settled(engine)), as_of_then)
    assert engine.learner.state.roll_backs.in_force == [(one, first), (two, then)]
    assert difference(State.from_bytes(engine.learner.state.to_bytes()), rebuilt(sqlite)) == 0.0
    engine.forward(BY)
    assert not settled(engine).roll_backs.in_force


def test_positions_that_cannot_come_back_are_refused(
    sqlite: Store, start: Start, world: nq.ArmPool
) -> None:
    engine = start(sqlite)
    head = clicks(engine, "a")
    for wrong in (0, head, head + 7):
        with pytest.raises(
            InvalidInput, match=f"no model of position {wrong} .* from 1 to {head - 1}"
        ):
            engine.roll_back(wrong, BY)
    with pytest.raises(InvalidInput, match="whole number"):
        engine.roll_back(1.5, BY)  # type: ignore[arg-type]
    engine.close()
    with Engine.start(world, sqlite, options(policy="lin-ucb"), forget=lambda _: True) as other:
        clicks(other, "bb", 1)
        with pytest.raises(InvalidInput, match=f"that of position {head + 1} began anew"):
            other.roll_back(head - 1, BY)


def test_which_roll_backs_are_in_force_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        known: dict[int, int] = {}
        for position in sorted(rng.choice(np.arange(2, 60), 5, replace=False).tolist()):
            known[position] = int(rng.integers(1, position))

        def in_force(at: int, known: dict[int, int] = known) -> set[int]:
            """The roll-backs in force at a position, from what the newest one brings back."""
            newest = max((one for one in known if one <= at), default=None)
            return set() if newest is None else {newest} | in_force(known[newest])

        found = RollBacks()
        for position, to in known.items():
            found.follow(position, RolledBack(to=to))
        assert {position for position, _ in found.in_force} == in_force(60)
        assert RollBacks.from_state(found.state()).in_force == found.in_force
