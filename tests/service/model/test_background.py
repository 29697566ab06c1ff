"""Snapshots are packed beside the model, not under its lock."""

import threading

import numpy as np
import pytest

from nextquery.service.log.events import ArmAdded, vector_text
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference
from nextquery.service.model.learner import newest_state, rebuilt
from nextquery.service.model.state import State
from tests.service.conftest import Start
from tests.service.model.test_learner import run_traffic
from tests.service.worlds import TEXTS, caught_up, options, until


def test_a_snapshot_is_packed_without_the_lock(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite, snapshot_every=10_000)
    run_traffic(engine)
    caught_up(engine)
    pack, asked = State.arrays, threading.Event()
    answered: list[bool] = []

    def pack_while_others_work(state: State) -> dict[str, np.ndarray]:
        """Another thread must be able to take the lock, and to answer, before packing ends."""
        if asked.is_set():
            return pack(state)
        asked.set()
        worker = threading.Thread(target=lambda: engine.recommend(session_id="x", query=TEXTS[3]))
        worker.start()
        worker.join(300)
        answered.append(not worker.is_alive())
        engine.learner.catch_up()  # the model moves on, the snapshot does not
        return pack(state)

    monkeypatch.setattr(State, "arrays", pack_while_others_work)
    position = engine.learner.position
    engine.background.options = options(snapshot_every=1)
    engine.background._snapshot()
    assert until(lambda: len(answered) == 1)
    assert answered == [True]
    monkeypatch.undo()
    saved = newest_state(sqlite)
    assert saved.position >= position
    assert difference(rebuilt(sqlite, until=saved.position), saved) == 0.0


def test_a_copy_is_equal_and_independent(sqlite: Store, start: Start) -> None:
    engine = start(sqlite)
    run_traffic(engine, rounds=15)
    state = caught_up(engine).learner.state
    copy, before = state.copy(), state.to_bytes()
    assert copy.to_bytes() == before
    row = vector_text(np.ones(12, np.float32))
    copy.added.append(ArmAdded(999, "x", "x", row))
    copy.model_state.policy._shared.b += 1.0  # type: ignore[attr-defined]
    copy.model_state.live.add(1, [2])
    copy.statistics.decided("p", 0.0, [1], fallback=False)
    copy.blocked.add("x")
    assert state.to_bytes() == before


def test_an_event_is_checked_before_the_lock_is_taken(
    sqlite: Store, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(sqlite)
    decision = engine.recommend(session_id="s", query=TEXTS[0])
    caught_up(engine)
    engine.learner._decided.clear()  # so that its feedback needs the store
    usual, asked, go_on = sqlite.decision, threading.Event(), threading.Event()

    def slow(decision_id: str) -> object:
        asked.set()
        assert go_on.wait(300)
        return usual(decision_id)

    monkeypatch.setattr(sqlite, "decision", slow)
    try:
        engine.feedback(decision_id=decision.decision_id, accepted=None)
        assert asked.wait(300)
        assert engine.submit_forecast(session_id="t", query=TEXTS[1]).result(300).likely
    finally:
        go_on.set()
