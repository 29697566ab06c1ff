"""Stores, pools and recommenders written before there was one loop still open, and go on.

The stores were written by commit 9dba084 with `live_through` on the small world, with each policy
under its old name; forecasts.json is what that commit then forecast after TEXTS[12].
"""

import gzip
import json
import logging
from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery.service.engine import Engine
from nextquery.service.rebuild import rebuild
from nextquery.service.store import Store
from tests.service.worlds import TEXTS, caught_up, options

OLD = Path(__file__).parent / "old"
NOW = {
    "lin-ucb-memory": "lin-ucb-memory",
    "lin-ucb": "lin-ucb-shared",
    "lin-ts": "lin-ts-interaction",
    "most-similar": "most-similar-first",
}


@pytest.fixture
def url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress((OLD / f"{request.param}.db.gz").read_bytes()))
    return f"sqlite:///{path}"


@pytest.mark.parametrize(("url", "old"), [(name, name) for name in NOW], indirect=["url"])
@pytest.mark.parametrize("renamed", [False, True], ids=["old name", "new name"])
def test_an_old_store_goes_on_with_what_it_learnt(
    world: nq.ArmPool, url: str, old: str, renamed: bool
) -> None:
    store = Store.open(url)
    models = [event.position for event in store.read(0, 10_000) if event.kind == "model"]
    asked = {"policy": old}
    if renamed:
        asked = {"policy": f"{NOW[old]}@alpha=0.1" if old == "lin-ucb" else NOW[old]}
    with Engine.start(world, store, options(**asked, learn_issued=True, timeout_s=1e9)) as engine:
        likely = engine.forecast(session_id="fresh", query=TEXTS[12], m=8).likely
        wanted = json.loads((OLD / "forecasts.json").read_text())[old]
        assert [one.arm for one in likely] == [arm for arm, _ in wanted]
        np.testing.assert_allclose([p for _, _, p in likely], [p for _, p in wanted], rtol=1e-9)
        decision = engine.recommend(session_id="fresh", query=TEXTS[12])
        assert decision.policy == NOW[old]
        accepted = decision.recommendations[1].arm_id
        engine.feedback(decision_id=decision.decision_id, accepted=accepted)
        caught_up(engine)
    found = [event.position for event in store.read(0, 10_000) if event.kind == "model"]
    assert found == models  # no model was begun anew, so nothing was forgotten
    assert rebuild(store).agrees
    store.close()


@pytest.mark.parametrize("url", ["lin-ucb"], indirect=True)
def test_another_alpha_is_another_model(
    world: nq.ArmPool, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.open(url)
    with caplog.at_level(logging.WARNING), Engine.start(world, store, options(policy="lin-ts")):
        pass
    models = [event for event in store.read(0, 10_000) if event.kind == "model"]
    assert models[-1].body["policy"] == "lin-ts"
    store.close()


def test_an_old_recommender_opens() -> None:
    rec = nq.Recommender.open(OLD / "recommender")
    assert rec.sessions_started == 1
    assert rec.policy.state()["updates"] == 3
    assert rec.start("q0").recommend() is not None
