"""A store of the last version without own memories goes on with more features and the new rule."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery.memory import FEATURES
from nextquery.service.answer.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.model.learner import rebuilt
from nextquery.service.model.model_events import policy_of
from nextquery.service.model.rebuild import AGREE, rebuild
from nextquery.service.model.snapshots import newest_state
from nextquery.service.model.state import State
from tests.service.model.test_old_stores import NEWEST, opened
from tests.service.worlds import TEXTS, caught_up, options


@pytest.fixture
def newest_store(tmp_path: Path) -> Iterator[Store]:
    yield from opened(tmp_path, NEWEST)


def test_what_the_newest_old_store_learnt_is_as_it_was(newest_store: Store) -> None:
    expected = json.loads((NEWEST / "expected.json").read_text())
    learnt = rebuilt(newest_store).learnt.policy.state()
    assert int(learnt["updates"]) == expected["updates"]
    np.testing.assert_allclose(learnt["b"], expected["b"], rtol=0, atol=AGREE)


@pytest.mark.parametrize("warm", [20, 0])
def test_a_model_with_more_features_continues_one_with_eight(
    newest_store: Store, warm: int
) -> None:
    pool, before = nq.ArmPool.open(NEWEST / "pool"), rebuilt(newest_store).learnt.policy
    with Engine.start(pool, newest_store, options(warm_sessions=warm, timeout_s=1e9)) as engine:
        state = engine.learner.state
        bases = [policy_of(engine.learner.model(position)) for position in state.lineage]
        old, base, new, now = (
            policy.state() for policy in (before, bases[0], bases[1], state.learnt.policy)
        )
        assert (len(base["b"]), len(new["b"]), len(now["b"])) == (8, len(FEATURES), len(FEATURES))
        for name, eight in (("b", np.s_[:8]), ("A", np.s_[:8, :8])):
            learnt = new[name].copy()
            learnt[eight] += old[name] - base[name]
            np.testing.assert_allclose(now[name], learnt, rtol=0, atol=AGREE)
        assert not engine.recommend(session_id="new", query=TEXTS[7]).fallback
    assert rebuild(newest_store, pool).agrees


def test_old_decisions_are_learnt_by_the_old_rule(newest_store: Store) -> None:
    """They have no packed failures: a click teaches its slate, a typed query that nothing fit."""
    pool = nq.ArmPool.open(NEWEST / "pool")
    waiting = json.loads((NEWEST / "expected.json").read_text())["open"]
    with Engine.start(pool, newest_store, options(timeout_s=1e9)) as engine:
        before = State.from_bytes(engine.learner.state.to_bytes()).learnt.policy
        clicked, arm = waiting["click"]
        engine.feedback(decision_id=clicked, accepted=arm)
        engine.feedback(decision_id=waiting["type"], accepted=None, issued=TEXTS[40])
        caught_up(engine)
        for decision_id, rewards in ((clicked, [0.0, 1.0]), (waiting["type"], [0.0])):
            stored = newest_store.decision(decision_id)
            assert stored is not None
            for entry, reward in zip(stored.body.slate, rewards, strict=False):
                features = np.zeros(len(FEATURES))
                features[:8] = entry.features
                before.update(nq.Choice(entry.arm, features, 0.0, 1.0), reward)
        ours, theirs = engine.learner.state.learnt.policy.state(), before.state()
    for name in ("A", "b", "updates"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=AGREE)
    assert rebuild(newest_store, pool).agrees


def test_a_snapshot_without_times_is_not_used(newest_store: Store) -> None:
    assert newest_store.snapshot_positions()
    assert newest_state(newest_store).position == 0
    with Engine.start(nq.ArmPool.open(NEWEST / "pool"), newest_store, options(timeout_s=1e9)):
        pass
    assert newest_state(newest_store).position == newest_store.head().position
