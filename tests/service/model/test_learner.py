"""The state depends only on the log: at a given position it is the same, however it was read."""

import logging

import numpy as np
import pytest
import sqlalchemy as sa

import nextquery as nq
from nextquery.errors import Damaged, InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.schema import events, snapshots
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference, rebuild
from nextquery.service.model.learner import Learner, newest_state, rebuilt
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, TOPICS, caught_up, close_open, options, rarely


def run_traffic(engine: Engine, rounds: int = 40, seed: int = 0) -> None:
    """Send clicks (in time, late, repeated, corrected), nulls, typed queries, new arms, a block."""
    rng = np.random.default_rng(seed)
    waiting: list[tuple[str, list[int]]] = []
    for number in range(rounds):
        query = (
            TEXTS[int(rng.integers(60))]
            if rng.random() < 0.8
            else f"{TOPICS[number % 3]} club food"
        )
        decision = engine.recommend(
            session_id=f"s{number % 7}", query=query, user_id=f"u{number % 7}"
        )
        waiting.append((decision.decision_id, [one.arm for one in decision.recommendations]))
        if rng.random() < 0.7:
            engine.delivered(decision.decision_id)
        if number % 11 == 10:
            close_open(engine)
        if number == 20:
            engine.block(TEXTS[5])
        at = int(rng.integers(len(waiting)))
        decision_id, arms = waiting.pop(at) if rng.random() < 0.8 else waiting[at]
        for _ in range(int(rng.integers(1, 3))):
            accepted = arms[0] if rng.random() < 0.6 and arms else None
            issued = TEXTS[int(rng.integers(60))] if rng.random() < 0.4 else None
            engine.feedback(decision_id=decision_id, accepted=accepted, issued=issued)


@pytest.mark.parametrize(
    "policy",
    ["lin-ucb-memory", "lin-ts", *rarely("lin-ucb", "lin-ucb-shared", "most-similar", "random")],
)
def test_two_learners_agree_bit_for_bit(sqlite: Store, start: Start, policy: str) -> None:
    engine = start(sqlite, policy=policy, exploration=0.2, learn_issued=True)
    run_traffic(engine)
    one, other = Learner(sqlite), Learner(sqlite, remembered=1)
    one.catch_up(batch=1)
    other.catch_up(batch=7)
    assert one.position == other.position == sqlite.head().position
    assert one.state.to_bytes() == other.state.to_bytes()
    middle = one.position // 2
    assert (
        rebuilt(sqlite, until=middle).to_bytes()
        == rebuilt(sqlite, until=middle, batch=3).to_bytes()
    )


def test_rebuilt_equals_live_and_restarted(store: Store, start: Start) -> None:
    engine = start(store, snapshot_every=25, learn_issued=True)
    run_traffic(engine)
    live = caught_up(engine).learner.state
    assert live.model_state.policy is not None
    assert live.statistics.totals()["accepted"] > 0
    assert difference(live, rebuilt(store)) <= 1e-9
    engine.close()
    assert newest_state(store).position == store.head().position
    assert rebuild(store).agrees
    again = start(store)
    assert difference(again.learner.state, live) == 0.0
    assert again.catalogue.pool.rows_in_all == engine.catalogue.pool.rows_in_all > len(TEXTS)
    hidden = [one.catalogue.hidden_arms().tolist() for one in (again, engine)]
    assert hidden == [[5], [5]]


def test_workers_arrive_at_the_same_state(store: Store, start: Start) -> None:
    one, other = start(store), start(store)
    for number in range(12):
        engine = (one, other)[number % 2]
        decision = engine.recommend(session_id="s", query=TEXTS[number], user_id=f"u{number}")
        arm = decision.recommendations[0].arm
        (other, one)[number % 2].feedback(decision_id=decision.decision_id, accepted=arm)
    caught_up(one), caught_up(other)
    assert one.learner.position == other.learner.position
    assert one.learner.state.to_bytes() == other.learner.state.to_bytes()


def test_a_damaged_snapshot_is_left_aside(
    store: Store, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start(store, snapshots_kept=2)
    run_traffic(engine, rounds=10)
    engine.close()
    older = store.snapshot_positions()[0]
    engine = start(store)
    run_traffic(engine, rounds=5, seed=1)
    engine.close()
    newest = store.snapshot_positions()[0]
    assert newest > older
    with store.writing() as connection:
        _, blob = store.snapshot(newest) or ("", b"")
        broken = bytearray(blob)
        broken[len(broken) // 2] ^= 1
        connection.execute(
            sa.update(snapshots).where(snapshots.c.position == newest).values(blob=bytes(broken))
        )
    with caplog.at_level(logging.WARNING):
        assert newest_state(store).position == older
    assert f"skipping snapshot {newest}" in caplog.text
    assert difference(start(store).learner.state, engine.learner.state) == 0.0


def test_a_hole_in_the_log_is_seen(sqlite: Store, start: Start) -> None:
    run_traffic(start(sqlite), rounds=5)
    with sqlite.writing() as connection:
        connection.execute(sa.delete(events).where(events.c.position == 3))
    with pytest.raises(Damaged, match="events are missing"):
        rebuilt(sqlite)


def test_positions_have_no_gaps(store: Store, start: Start) -> None:
    run_traffic(start(store), rounds=15)
    found = [event.position for event in store.read(0, 10_000)]
    assert found == list(range(1, len(found) + 1))
    times = [event.time for event in store.read(0, 10_000)]
    assert times == sorted(times)


def test_another_pool_is_refused(sqlite: Store, start: Start) -> None:
    start(sqlite)
    other_pool = nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]])
    with pytest.raises(InvalidInput, match="started with another pool"):
        Engine.start(other_pool, sqlite, options())


def test_another_policy_begins_a_new_model(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    engine.close()
    other = start(sqlite, policy="lin-ucb")
    assert other.recommend(session_id="t", query=TEXTS[0]).policy == "lin-ucb"
    # The new model cannot learn from features of the old one.
    arm = decision.recommendations[0].arm
    other.feedback(decision_id=decision.decision_id, accepted=arm)
    caught_up(other)
    assert other.learner.state.statistics.totals()["accepted"] == 1
    assert difference(other.learner.state, rebuilt(sqlite)) == 0.0


def test_a_snapshot_that_the_log_does_not_support_is_seen(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    run_traffic(engine, rounds=5)
    caught_up(engine).learner.state.model_state.policy._shared.b += 1e-6  # type: ignore[attr-defined]
    engine.close()
    assert not rebuild(sqlite).agrees
