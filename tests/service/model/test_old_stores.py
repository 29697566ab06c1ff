"""Stores and pools written by earlier commits still open and keep learning.

The files directly in `old/` are older than the shared loop; `old/bec5451` was written by the commit
before events had types, `old/3e109a4` by the last one whose memory had eight features and no clock,
and whose typed queries taught alone. Commit 9dba084 wrote the stores of `old/` with `run_traffic`
(then named `live_through`) of test_learner.py on the small pool, each policy under its old name.
forecasts.json has the forecasts of that commit after TEXTS[12]. The pool is read from its files: a
pool fitted anew has other vectors on another processor.
"""

import gzip
import hashlib
import io
import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.memory import FEATURES
from nextquery.service.answer.engine import Engine
from nextquery.service.http.keys import KeyRing
from nextquery.service.log.events import ArmAdded, ModelEvent
from nextquery.service.log.export import write_ubi
from nextquery.service.log.hashes import session_key
from nextquery.service.log.operators.changes import ArmRemoved
from nextquery.service.log.schema import arm_texts, identities, sightings
from nextquery.service.log.store import Store
from nextquery.service.model import state_fields
from nextquery.service.model.arrays import Arrays
from nextquery.service.model.learner import rebuilt
from nextquery.service.model.model_events import event_of, policy_of
from nextquery.service.model.rebuild import AGREE, rebuild
from nextquery.service.model.repair import repair
from nextquery.service.model.state import State
from nextquery.signing import keyed
from tests.service.worlds import TEXTS, TwoUserRule, caught_up, options

OLD = Path(__file__).parents[1] / "old"
LAST = OLD / "bec5451"
"""Written before events had types: every kind of event, a pool."""
NEWEST = OLD / "3e109a4"
"""Written before own memories and full observations: every kind of event, and a pool."""
NOW = {
    "lin-ucb-memory": "lin-ucb-memory",
    "lin-ucb": "lin-ucb-shared",
    "lin-ts": "lin-ts-interaction",
    "most-similar": "most-similar-first",
}


@pytest.fixture(scope="module")
def pool() -> nq.ArmPool:
    return nq.ArmPool.open(LAST / "pool")


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((OLD / f"{request.param}.db.gz").read_bytes()))
    return f"sqlite:///{path}"


@pytest.mark.parametrize(("url", "old"), [(name, name) for name in NOW], indirect=["url"])
@pytest.mark.parametrize("renamed", [False, True], ids=["old name", "new name"])
def test_an_old_store_goes_on_with_what_it_learnt(
    pool: nq.ArmPool, url: str, old: str, renamed: bool
) -> None:
    store = Store.open(url)
    models = [event.position for event in store.read(0, 10_000) if event.kind == "model"]
    changes = {"policy": old}
    if renamed:
        changes = {"policy": f"{NOW[old]}@alpha=0.1" if old == "lin-ucb" else NOW[old]}
    with Engine.start(pool, store, options(**changes, learn_issued=True, timeout_s=1e9)) as engine:
        likely = engine.forecast(session_id="fresh", query=TEXTS[12], m=8).likely
        expected = json.loads((OLD / "forecasts.json").read_text())[old]
        wider = old == "lin-ucb-memory"  # its features grew, so a new model continues the old one
        if not wider:
            assert [one.arm for one in likely] == [arm for arm, _ in expected]
            mine, theirs = [p for _, _, p in likely], [p for _, p in expected]
            np.testing.assert_allclose(mine, theirs, rtol=1e-9)
        decision = engine.recommend(session_id="fresh", query=TEXTS[12])
        assert decision.policy == NOW[old]
        accepted = decision.recommendations[1].arm
        engine.feedback(decision_id=decision.decision_id, accepted=accepted)
        caught_up(engine)
    state = engine.learner.state
    assert state.lineage == [*models, *([state.model] if wider else [])]
    if wider:
        bases = [policy_of(engine.learner.model(position)) for position in state.lineage]
        assert [base.dimension for base in bases] == [8, len(FEATURES)]
        assert state.learnt.policy.dimension == len(FEATURES)
        lessons = rebuilt(store, until=state.model - 1).learnt.policy.learnt_since(bases[0])
        assert state.learnt.policy.learnt_since(bases[1]) == lessons + 1 > 1
    assert rebuild(store, pool).agrees
    store.close()


@pytest.mark.parametrize(("url", "old"), [(name, name) for name in NOW], indirect=["url"])
@pytest.mark.parametrize(
    "change", [{"warm_sessions": 10}, {"selection": "random", "schedule": "bump@start=3"}], ids=str
)
def test_an_old_store_keeps_what_it_learnt_when_a_setting_changes(
    pool: nq.ArmPool, url: str, old: str, change: dict[str, Any]
) -> None:
    store = Store.open(url)
    before = rebuilt(store)
    changed = options(policy=NOW[old], learn_issued=True, timeout_s=1e9, **change)
    with Engine.start(pool, store, changed) as engine:
        state = engine.learner.state
    assert len(state.lineage) == 2
    bases = [policy_of(engine.learner.model(position)) for position in state.lineage]
    lessons = before.learnt.policy.learnt_since(bases[0])
    assert state.learnt.policy.learnt_since(bases[1]) == lessons
    assert rebuild(store, pool).agrees
    store.close()


@pytest.mark.parametrize("url", ["lin-ucb"], indirect=True)
def test_another_policy_is_another_model(
    pool: nq.ArmPool, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.open(url)
    other = options(policy="lin-ts")
    with pytest.raises(InvalidInput, match="would forget 21 live updates"):
        Engine.start(pool, store, other)
    with (
        caplog.at_level(logging.WARNING),
        Engine.start(pool, store, other, forget=lambda question: True),
    ):
        pass
    models = [event for event in store.read(0, 10_000) if event.kind == "model"]
    assert isinstance(models[-1].body, ModelEvent)
    assert models[-1].body.policy == "lin-ts"
    store.close()


@pytest.fixture
def last_store(tmp_path: Path) -> Iterator[Store]:
    yield from opened(tmp_path, LAST)


def opened(folder: Path, old: Path) -> Iterator[Store]:
    path = folder / "last.db"
    path.write_bytes(gzip.decompress((old / "store.db.gz").read_bytes()))
    store = Store.open(f"sqlite:///{path}")
    yield store
    store.close()


def kept_then(state: State) -> Arrays:
    """The arrays of a state, without what older versions did not keep: times, what was foreseen."""
    new = {f"memory/{name}" for name in ("times", "asked", "half_life")}
    new.add("statistics/next_queries")
    return {name: array for name, array in state.arrays().items() if name not in new}


def event_of_then(fields: dict[str, Any]) -> ModelEvent:
    """The model event in an old snapshot, which named the policy's class, too."""
    return event_of({name: value for name, value in fields.items() if name != "policy_class"})


@pytest.mark.parametrize(("old", "kinds"), [(LAST, 10), (NEWEST, 14)], ids=["bec5451", "3e109a4"])
def test_every_kind_of_event_is_read_as_it_was(
    tmp_path: Path, old: Path, kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_fields, "event_of", event_of_then)
    for store in opened(tmp_path, old):
        expected = json.loads((old / "expected.json").read_text())
        found = {event.kind for event in store.read(0, 10_000)}
        assert len(found) == kinds, found  # every kind
        for position, digest in expected["snapshots"].items():
            sha256, blob = store.snapshot(int(position)) or ("", b"")
            assert sha256 == hashlib.sha256(blob).hexdigest() == digest
            mine = kept_then(rebuilt(store, until=int(position)))
            theirs = kept_then(State.from_bytes(blob))
            assert mine.keys() == theirs.keys()
            for name, array in mine.items():
                # not to the last bit: sums of products differ between processors
                near = AGREE if array.dtype.kind == "f" else 0
                assert array.shape == theirs[name].shape
                assert near or np.array_equal(array, theirs[name]), name
                assert not near or np.allclose(array, theirs[name], rtol=0, atol=near), name
        sink = io.BytesIO()
        write_ubi(store, sink)
        assert hashlib.sha256(sink.getvalue()).hexdigest() == expected["ubi_sha256"]


@pytest.mark.parametrize("old", [LAST, NEWEST], ids=["bec5451", "3e109a4"])
def test_a_store_and_a_pool_of_the_commit_before_go_on(tmp_path: Path, old: Path) -> None:
    expected = json.loads((old / "expected.json").read_text())
    pool = nq.ArmPool.open(old / "pool")
    pool.verify()
    shop = {"owner": "shop"} if old == NEWEST else {}
    again_as: dict[str, Any] = {"session_id": "a", "query": TEXTS[0], "user_id": "u1"}
    if old == NEWEST:
        again_as = {"session_id": "s0", "query": TEXTS[3], "user_id": "u0", **shop}
    chosen = options(learn_issued=True, exploration=0.1, timeout_s=1e9)
    for store in opened(tmp_path, old):
        with Engine.start(pool, store, chosen) as engine:
            stats = {**engine.stats(), "floor": 0.0, "position": engine.stats()["position"] - 1}
            assert_as_counted_then(stats, {"not_teaching": 0, **expected["stats"], "floor": 0.0})
            again = engine.recommend(m=4, request_id="r1", **again_as)
            arms = [one.arm for one in again.recommendations]
            assert again.repeated
            made_by = [again.decision_id, arms, again.policy, again.model_version]
            assert made_by == expected["repeated"]
            decision = engine.recommend(session_id="a", query=TEXTS[3], m=4)
            assert not decision.fallback
            accepted = decision.recommendations[0].arm
            status = engine.feedback(decision_id=decision.decision_id, accepted=accepted).status
            assert status == "recorded"
            caught_up(engine)
        assert rebuild(store, pool).agrees


def assert_as_counted_then(stats: dict[str, Any], then: dict[str, Any]) -> None:
    """Older versions counted a corrected decision as two next queries, and offers not at all."""
    now, old = stats.pop("coverage"), then.pop("coverage")
    assert now["next_queries_known"] == old["next_queries_known"] - 1
    assert now["arms_shown"] == old["arms_shown"]
    for mine, theirs in zip(
        [stats.pop("totals"), *stats.pop("rows")],
        [then.pop("totals"), *then.pop("rows")],
        strict=True,
    ):
        assert {name: mine[name] for name in theirs} == theirs
    assert stats == then


def test_an_old_store_gets_owners_identities_and_the_keys_of_its_arms(tmp_path: Path) -> None:
    path = tmp_path / "last.db"
    path.write_bytes(gzip.decompress((LAST / "store.db.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("INSERT INTO keys VALUES ('k1', 'h', 'box', 'write', 1.0, NULL)")
        pairs = old.execute(
            "SELECT DISTINCT session_id, user_hash FROM decisions WHERE user_hash IS NOT NULL"
        ).fetchall()
    rule = TwoUserRule(2)
    for session, user in pairs:
        rule.met(user, ("", session))
    with closing(Store.open(f"sqlite:///{path}")) as store:
        secret = store.head().secret
        assert KeyRing(store).list()[0].owner == ""
        assert {decision.owner for decision in store.decisions()} == {""}
        events = [event.body for event in store.read(0, 10_000)]
        added = [body for body in events if isinstance(body, ArmAdded)]
        removed = {body.arm for body in events if isinstance(body, ArmRemoved)}
        with store.reading() as connection:
            rows = connection.execute(sa.select(arm_texts)).all()
            named = connection.execute(sa.select(identities)).all()
            assert connection.execute(sa.select(sightings)).all() == []
    people: dict[str, str] = {row.name: row.identity for row in named}
    keys = {keyed(secret, "text", arm.text): arm.arm for arm in added}
    assert added
    assert {row.text_key: row.arm for row in rows} == keys
    assert all((row.state == "removed") == (row.arm in removed) for row in rows)
    groups = [
        {name if isinstance(name, str) else session_key(secret, *name) for name in group}  # type: ignore[misc]
        for group in rule.groups
    ]
    assert set(people) == set().union(*groups)
    assert {frozenset(people[name] for name in group) for group in groups} == {
        frozenset([people[next(iter(group))]]) for group in groups
    }
    assert len(set(people.values())) == len(groups) > 0


@pytest.mark.parametrize("kind", ["arm_added", "arm_removed"])
@pytest.mark.parametrize("body", ['{"arm": 6', "[]", '{"arm": [6]}', '{"arm": 6000}'])
def test_an_old_store_with_a_damaged_arm_opens_and_is_repaired(
    tmp_path: Path, pool: nq.ArmPool, kind: str, body: str
) -> None:
    path = tmp_path / "last.db"
    path.write_bytes(gzip.decompress((LAST / "store.db.gz").read_bytes()))
    with closing(sqlite3.connect(path)) as old, old:
        first = "SELECT min(position) FROM events WHERE kind = ?"
        position = old.execute(first, (kind,)).fetchone()[0]
        old.execute("UPDATE events SET body = ? WHERE position = ?", (body, position))
    with closing(Store.open(f"sqlite:///{path}")) as store:
        assert [event.position for event in repair(store, pool)] == [position]
        assert rebuild(store, pool).agrees
