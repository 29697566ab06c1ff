"""What a decision would teach is packed into its event: small, and checked if it is damaged."""

import base64
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

import nextquery as nq
from nextquery.errors import Damaged
from nextquery.memory import FEATURES
from nextquery.policies.packed import pack_vectors
from nextquery.service.engine.engine import Engine
from nextquery.service.log.events import DecisionEvent, NextQuery, from_json, to_json
from nextquery.service.log.schema import events
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference, rebuild, repair
from nextquery.service.model.learner import rebuilt
from nextquery.service.settings import EngineOptions
from tests.policies.worlds import LEARN_DIFFERENTLY
from tests.service.conftest import Start
from tests.service.model.test_full_observations import LEARNING, ask, tell
from tests.service.worlds import caught_up, feedback_events, new_log, rarely

DAMAGE: dict[str, str] = {
    "no base64": "é!",
    "cut short": base64.b64encode(b"\x01\x0f\x00").decode(),
    "another kind": base64.b64encode(b"\x09" + bytes(30)).decode(),
    "not a number": "",
    "wider than the model": "",
}


def damaged(failures: str, how: str) -> str:
    if DAMAGE[how]:
        return DAMAGE[how]
    packed = bytearray(base64.b64decode(failures))
    if how == "not a number":
        packed[9:13] = np.array([np.nan], "<f4").tobytes()
    else:
        rows = np.ones((3, len(FEATURES) + 1))
        packed = bytearray(pack_vectors(rows, np.random.default_rng(0)))
    return base64.b64encode(bytes(packed)).decode()


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_failures_are_found_before_anything_changes(
    sqlite: Store, start: Start, world: nq.ArmPool, how: str
) -> None:
    engine = start(sqlite)
    earlier, arms = ask(engine, 30, session_id="t")
    tell(engine, earlier, arms[0])
    decision, arms = ask(engine)
    tell(engine, decision, arms[1])
    stored = sqlite.decision(decision.decision_id)
    assert stored is not None
    engine.close()
    with sqlite.writing() as connection:
        here = events.c.position == stored.position
        text = connection.execute(sa.select(events.c.body).where(here)).scalar_one()
        body: Any = from_json(DecisionEvent.kind, text)
        wrong = to_json(DecisionEvent(**{**vars(body), "failures": damaged(body.failures, how)}))
        connection.execute(sa.update(events).where(here).values(body=wrong))
    with pytest.raises(Damaged, match=r"cannot be applied.*--repair"):
        rebuild(sqlite, world)
    # A step that is whole but does not fit the model is found when it is to be learnt.
    found = stored.position + (how == "wider than the model")
    learner_at = rebuilt(sqlite, until=found - 1)
    made = repair(sqlite, world)
    assert made[0].position == found
    after = rebuilt(sqlite)
    ours, theirs = after.model_state.policy.state(), learner_at.model_state.policy.state()
    for name in ("A", "b", "updates"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    assert rebuild(sqlite, world).agrees
    again = start(sqlite)
    decision, arms = ask(again, 31, session_id="u")
    assert tell(again, decision, arms[0]) == "recorded"


@pytest.mark.parametrize("policy", LEARN_DIFFERENTLY)
def test_failures_take_at_most_two_kilobytes(sqlite: Store, start: Start, policy: str) -> None:
    engine = start(sqlite, policy=policy, k=60)
    decision, arms = ask(engine, m=50)
    tell(engine, decision, arms[0])
    stored = sqlite.decision(decision.decision_id)
    assert stored is not None
    assert len(stored.body.failures) <= 2000
    assert bool(stored.body.failures) == bool(engine.answerer.loop.policy.learns)
    assert feedback_events(sqlite)[-1].full == NextQuery(arms[0])


@pytest.mark.parametrize("policy", LEARNING)
@pytest.mark.parametrize("dim", [768, *rarely(12, 128)])
def test_failures_of_a_large_pool_fit_too(tmp_path: Path, policy: str, dim: int) -> None:
    rng, names = np.random.default_rng(0), [f"query {number}" for number in range(900)]
    pool = nq.ArmPool.from_vectors(names, rng.normal(size=(900, dim)))
    chosen = EngineOptions(policy=policy, k=800, gather_ms=0.0)
    with (
        closing(Store.open(new_log(tmp_path / "large.db"))) as store,
        Engine.start(pool, store, chosen) as engine,
    ):
        decision = engine.recommend(session_id="s", query=names[7], m=20)
        engine.feedback(decision_id=decision.decision_id, accepted=decision.recommendations[4].arm)
        stored = store.decision(decision.decision_id)
        assert stored is not None
        assert len(stored.body.failures) <= 2000
        long = dim == 768 and policy in ("lin-ucb-shared", "lin-ts")  # not even two rows fit
        assert bool(stored.body.failures) != long
        assert difference(caught_up(engine).learner.state, rebuilt(store)) == 0.0
