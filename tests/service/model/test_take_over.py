"""A new pool begins with what the log of an old one has learnt."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import nextquery as nq
from nextquery import cli
from nextquery.arms.origin import Origin
from nextquery.errors import InvalidInput
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import rebuild
from nextquery.service.maintain.take_over import take_over
from nextquery.service.model.experiments import policy_of
from nextquery.service.model.prepare import first_model, live_policy
from nextquery.sessions import Sessions
from tests.service.model.test_continuing import click
from tests.service.worlds import TEXTS, caught_up, options, small_pool


@pytest.fixture(scope="module")
def old_pool() -> nq.ArmPool:
    return small_pool()


@pytest.fixture(scope="module")
def new_pool(old_pool: nq.ArmPool) -> nq.ArmPool:
    """The same encoder, other arms, other ids."""
    texts = [*TEXTS[30:], "cats parade", *TEXTS[:20]]
    encoder = old_pool.encoder
    assert encoder is not None
    counts = np.ones(len(texts), np.int64)
    nothing = Sessions(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0))
    origin = Origin(texts, counts, counts, nothing, True)
    return nq.ArmPool.from_vectors(texts, encoder.encode(texts), origin=origin, encoder=encoder)


@pytest.fixture
def old_store(sqlite: Store, old_pool: nq.ArmPool) -> Store:
    with Engine.start(old_pool, sqlite, options()) as engine:
        click(engine, 20)
        for query in ("bread parade", "cats parade", "chess parade"):
            for user in ("ann", "bob"):
                engine.recommend(session_id=f"{user} {query}", query=query, user_id=user)
        caught_up(engine)
        engine.block(TEXTS[40])
        engine.remove(TEXTS[1])  # also in the new pool
        engine.remove(TEXTS[25])  # not there
        engine.remove("chess parade")  # added live
    return sqlite


def test_learning_blocks_and_arms_come_along(
    old_store: Store, old_pool: nq.ArmPool, new_pool: nq.ArmPool, tmp_path: Path
) -> None:
    store, chosen = Store.open(str(tmp_path / "new.db")), options()
    done = take_over(new_pool, store, chosen, old_pool=old_pool, old_store=old_store)
    old = old_store.model(old_store.head().model)
    assert old is not None
    current, base = live_policy(old_store), policy_of(old)
    lessons = current.updates_since(base)
    assert lessons >= 20
    assert done == (lessons, 1, 1, 3, 0, 0)
    new = policy_of(first_model(new_pool, chosen)).state()
    with Engine.start(new_pool, store, chosen) as engine:
        state, pool = engine.learner.state, engine.catalogue.pool
        assert state.lineage == [1]  # start writes no other model
        found, taught, before = state.model_state.policy.state(), current.state(), base.state()
        zero = {"A": np.eye(len(before["b"])), "b": np.zeros(len(before["b"]))}
        for name in ("A", "b"):
            start = new[name] if new[name].size else zero[name]
            expected = start + (taught[name] - before[name])
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-9)
        assert pool.index_of("bread parade") == new_pool.rows_in_all
        assert pool.index_of("cats parade") == new_pool.index_of("cats parade")
        assert pool.index_of(TEXTS[1]) is None
        assert state.blocked == {TEXTS[40], TEXTS[25], "chess parade"}
        click(engine, 3, "again")
        kept = caught_up(engine).learner.state.model_state.policy.updates_since(policy_of(old))
    # A later change of settings keeps both what was taken over and what came since.
    with Engine.start(new_pool, store, options(alpha=0.7)) as engine:
        policy = engine.learner.state.model_state.policy
        base_now = policy_of(engine.learner.model(store.head().model))
        assert policy.updates_since(base_now) >= lessons + 3
        assert kept
        for query in ("chess parade", TEXTS[25]):  # removed for good
            for user in ("ann", "bob"):
                engine.recommend(session_id=f"{user} {query}", query=query, user_id=user)
        assert caught_up(engine).catalogue.pool.index_of("chess parade") is None
    assert rebuild(store, new_pool).agrees
    with pytest.raises(InvalidInput, match="new, empty store"):
        take_over(new_pool, store, chosen, old_pool=old_pool, old_store=old_store)
    store.close()


@pytest.mark.parametrize("policy", ["lin-ucb-shared", "lin-ucb", "lin-ucb-memory"])
def test_other_features_are_refused_and_nothing_is_written(
    sqlite: Store, old_pool: nq.ArmPool, new_pool: nq.ArmPool, tmp_path: Path, policy: str
) -> None:
    with Engine.start(old_pool, sqlite, options(policy=policy)) as engine:
        click(engine, 5)
    store = Store.open(str(tmp_path / "new.db"))
    sides = {"old_pool": old_pool, "old_store": sqlite}
    with pytest.raises(InvalidInput, match="cannot be taken over"):
        take_over(new_pool, store, options(policy="lin-ts"), **sides)  # type: ignore[arg-type]
    texts = ["green tea", "black tea", "green apples"]
    encoder = nq.encode.LsaEncoder(dim=2).fit(texts)
    other = nq.ArmPool.from_vectors(texts, encoder.encode(texts), encoder=encoder)
    if policy == "lin-ucb-memory":
        assert take_over(other, store, options(policy=policy), **sides).updates  # type: ignore[arg-type]
    else:
        with pytest.raises(InvalidInput, match="mean other things in another pool"):
            take_over(other, store, options(policy=policy), **sides)  # type: ignore[arg-type]
        assert store.head().position == 0
    if policy == "lin-ucb-shared":  # vectors of the same encoder mean the same
        assert take_over(new_pool, store, options(policy=policy), **sides).updates  # type: ignore[arg-type]
    store.close()


def test_the_command_and_the_error_that_names_it(pets_pool: Path, tmp_path: Path) -> None:
    old, new = f"sqlite:///{tmp_path / 'old.db'}", f"sqlite:///{tmp_path / 'new.db'}"
    nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]]).save(tmp_path / "other")
    store = Store.open(old)
    with Engine.start(nq.ArmPool.open(pets_pool), store) as engine:
        decision = engine.recommend(session_id="s", query=engine.pool.texts[0])
        arm = decision.recommendations[0].arm
        engine.feedback(decision_id=decision.decision_id, accepted=arm)
    with pytest.raises(InvalidInput, match="nextquery take-over"):
        Engine.start(nq.ArmPool.open(tmp_path / "other"), store)
    arguments = ["take-over", str(tmp_path / "other"), "--store", new, "--json"]
    arguments += ["--old-pool", str(pets_pool), "--old-store", old]
    result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert json.loads(result.stdout) == {
        "updates": 1,
        "arms": 0,
        "removed": 0,
        "blocked": 0,
        "held": 0,
        "rejected": 0,
    }
    store.close()


def test_what_was_rejected_or_is_held_stays_so(
    sqlite: Store, old_pool: nq.ArmPool, new_pool: nq.ArmPool, tmp_path: Path
) -> None:
    queries = ("bread parade", "chess parade", "roses parade", "cats parade")

    def typed(engine: Engine, *texts: str) -> Engine:
        for query in texts:
            for user in ("ann", "bob"):
                engine.recommend(
                    session_id=f"{user} {query}", query=query, user_id=user, owner="shop"
                )
        return caught_up(engine)

    with Engine.start(old_pool, sqlite, options(review_new_arms=True)) as engine:
        typed(engine, *queries).reject("bread parade")
        engine.reject("cats parade")  # an arm of the new pool
        engine.approve("roses parade")
        listed = {text.shown: text for text in caught_up(engine).arm_texts(100)[0]}
    store = Store.open(str(tmp_path / "new.db"))
    done = take_over(new_pool, store, options(), old_pool=old_pool, old_store=sqlite)
    assert done == (0, 1, 1, 0, 1, 1)
    with Engine.start(new_pool, store, options()) as engine:
        pool = typed(engine, *queries).catalogue.pool
        assert pool.index_of("roses parade") == new_pool.rows_in_all
        assert [pool.index_of(text) for text in ("bread parade", "cats parade")] == [None, None]
        assert pool.index_of("chess parade") is None
        texts = {text.shown: text for text in engine.arm_texts(100)[0]}
        states = {name: text.state for name, text in texts.items()}
        assert states == {
            "bread parade": "rejected",
            "cats parade": "removed",
            "chess parade": "held",
            "roses parade": "added",
        }
        assert texts["chess parade"] == listed["chess parade"]
        engine.approve("chess parade")
        assert caught_up(engine).catalogue.pool.index_of("chess parade") is not None
    assert rebuild(store, new_pool).agrees
    store.close()
