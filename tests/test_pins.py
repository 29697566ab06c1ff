"""Pins are shown at the top, whatever the policy draws; they teach nothing and bias nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import Conflict, InvalidInput
from nextquery.segments import key_of
from nextquery.service.engine.engine import Engine, listed_pins
from nextquery.service.exchange.export import entry_rows, pages, rounds, ubi_records
from nextquery.service.log.events import By
from nextquery.service.log.operators import as_json, changes
from nextquery.service.log.store import Store
from nextquery.service.model.learner import followed
from tests.service.worlds import TEXTS, caught_up, options, small_pool

OPS = By("key", "ops", "shop")
TEXTS_OF_A_SHOP = ["start", "tea", "milk", "pots", "cups"]


def shop(policy: nq.Policy, **more: Any) -> nq.Recommender:
    vectors = np.array([[1, 0], [1, 0.1], [1, 0.2], [1, 0.3], [1, 0.4]])
    pool = nq.ArmPool.from_vectors(TEXTS_OF_A_SHOP, vectors)
    return nq.Recommender(pool, nq.MaxUtility(k=4), policy, repeat=True, **more)


def texts(slate: list[nq.Choice]) -> list[str]:
    return [choice.text for choice in slate]


def test_a_pin_is_on_top_after_its_query_alone(tmp_path: Path) -> None:
    rec = shop(nq.MostSimilar(top=1))
    assert texts(rec.start("start").recommend(m=3)) == ["tea", "milk", "pots"]
    rec.pin("cups", after="start")
    assert texts(rec.start("start").recommend(m=3)) == ["cups", "tea", "milk"]
    assert texts(rec.start("start").recommend(m=1)) == ["cups"]
    assert texts(rec.start("tea").recommend(m=2)) == ["milk", "start"]
    rec.pin("pots")  # after every query, below those of the query itself
    assert texts(rec.start("start").recommend(m=3)) == ["cups", "pots", "tea"]
    assert "pots" not in texts(rec.start("pots").recommend(m=5))  # never the query itself
    rec.save(tmp_path / "rec")
    opened = nq.Recommender.open(tmp_path / "rec")
    assert texts(opened.start("start").recommend(m=3)) == ["cups", "pots", "tea"]
    rec.block("cups")  # a block wins
    assert texts(rec.start("start").recommend(m=2)) == ["pots", "tea"]
    rec.unblock("cups")
    rec.unpin("pots")
    rec.unpin("cups", after="start")
    assert texts(rec.start("start").recommend(m=3)) == ["tea", "milk", "pots"]
    with pytest.raises(InvalidInput, match="not an arm"):
        rec.pin("nothing like it")


def test_propensities_are_those_of_the_rest() -> None:
    rec = shop(nq.RandomPolicy())
    rec.pin("cups")
    slate = rec.start("start").recommend(m=4)
    assert [choice.propensity for choice in slate] == pytest.approx([1, 1 / 3, 1 / 2, 1])
    assert [choice.pinned for choice in slate] == [True, False, False, False]


@pytest.mark.parametrize("model", ["shared", "disjoint"])
def test_a_pin_teaches_nothing(model: str) -> None:
    def learnt(act: str) -> dict[str, bytes]:
        rec = shop(nq.LinUCB(model=model))
        rec.pin("cups")
        session = rec.start("start")
        slate = session.recommend(m=3)
        if act == "click on it":
            session.accept(slate[0])
        elif act == "type it":
            session.ignore(slate, issued="cups")
        elif act == "click below":
            session.accept(slate[2])
        state = rec.policy.state()
        return {name: state[name].tobytes() for name in state if name != "generator"}

    assert learnt("click on it") == learnt("type it") == learnt("nothing")
    assert learnt("click below") != learnt("nothing")  # what is below it teaches


def test_the_service_pins_what_nobody_asked_at_once_on_every_worker(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'events.db'}"
    store, pool = Store.open(url), small_pool()
    ask: dict[str, Any] = {"session_id": "s", "query": TEXTS[0], "m": 4}
    other = Store.open(url)
    with Engine.start(pool, store, options()) as one, Engine(pool, other, options()) as two:
        before = one.learner.state.model_state.policy.state()
        assert one.curate(["cats circus", TEXTS[1]], OPS) == 1
        assert one.curate(["cats circus"], OPS) == 0
        assert two.recommend(**{**ask, "query": "cats circus"}).decision_id
        assert caught_up(two).catalogue.find("cats circus") == len(TEXTS)
        with pytest.raises(InvalidInput, match="cannot be pinned"):
            one.pin("nothing of it", TEXTS[0], OPS)
        one.pin("cats circus", TEXTS[0], OPS)
        slate = two.recommend(**ask)  # the very next answer of the other worker
        first = slate.recommendations[0]
        assert (first.text, first.propensity, first.source) == ("cats circus", 1.0, "pinned")
        assert len(slate.recommendations) == 4
        assert len({entry.arm for entry in slate.recommendations}) == 4
        two.feedback(decision_id=slate.decision_id, accepted=first.arm)
        for name, array in caught_up(two).learner.state.model_state.policy.state().items():
            np.testing.assert_array_equal(array, before[name])  # a click on a pin teaches nothing
        rows = [row for page in pages(store) for each in page for row in entry_rows(each)]
        assert [row["source"] for row in rows].count("pinned") == 1
        records = [r for page in pages(store) for each in page for r in ubi_records(each)]
        assert any("pinned" in str(record) for record in records)
        assert not any(rounds(store))  # a click on a pin weighs nothing
        below = two.recommend(**{**ask, "session_id": "below"})
        arm = below.recommendations[2].arm
        two.feedback(decision_id=below.decision_id, accepted=arm)
        found = [(each.entry.arm, each.reward) for page in rounds(store) for each in page]
        assert (arm, 1) in found  # what is below a pin was drawn, and is weighed
        assert below.recommendations[0].arm not in [each for each, _ in found]
        one.block_pattern("*circus*", OPS)  # gone from the very next answer of both
        for engine in (one, two):
            shown = engine.recommend(**{**ask, "session_id": "t"}).recommendations
            assert "cats circus" not in [entry.text for entry in shown]
        one.allow_pattern("*circus*", OPS)
        assert listed_pins(followed(pool, store)) == one.pins() == two.pins()
        two.unpin("cats circus", TEXTS[0], OPS)
        assert one.pins() == []
        with pytest.raises(InvalidInput, match="not pinned"):
            two.unpin("cats circus", TEXTS[0], OPS)
        one.remove("cats circus", OPS)
        with pytest.raises((Conflict, InvalidInput)):
            one.curate(["cats circus"], OPS)
        one.pin(TEXTS[5], None, OPS)
        one.handler.new_arms.rules.capped = 0
        state = caught_up(one).learner.state
        assert type(state).from_bytes(state.to_bytes()).pins.after(TEXTS[0]) == [TEXTS[5]]
    with Engine.start(pool, store, options()) as again:
        assert again.recommend(**ask).recommendations[0].source == "pinned"


def test_pins_and_curated_queries_stay_in_their_segment(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'events.db'}")
    with Engine.start(small_pool(), store, options()) as engine:
        engine.curate(["cats circus", "cats parade"], OPS, segment="de")
        engine.pin("cats circus", None, OPS, segment="de")
        ask: dict[str, Any] = {"query": TEXTS[0], "m": 50}
        shown = engine.recommend(session_id="a", **ask, segment="de").recommendations
        assert [entry.text for entry in shown] == ["cats circus", "cats parade"]
        shown = engine.recommend(session_id="b", **ask).recommendations
        assert not {"cats circus", "cats parade"} & {entry.text for entry in shown}
        assert engine.pins() == [{"query": "cats circus", "after": None, "segment": "de"}]
        assert engine.catalogue.pool.texts[len(TEXTS)] == key_of("de", "cats circus")


def test_the_audit_tells_who_changed_what(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'events.db'}")
    with Engine.start(small_pool(), store, options()) as engine:
        engine.block(TEXTS[3], OPS)
        engine.block(TEXTS[4])  # by nobody that is known
        engine.curate(["cats circus"], OPS)
        engine.pin("cats circus", TEXTS[0], OPS)
        engine.switch(False, By("token"))
        engine.recommend(session_id="s", query=TEXTS[0])  # nothing that an operator did
        found = [as_json(change) for change in changes(store)]
    assert [(row["change"], row["by"]) for row in found] == [
        ("switched", {"via": "token"}),
        ("pinned", {"via": "key", "name": "ops", "owner": "shop"}),
        ("arm_added", {"via": "key", "name": "ops", "owner": "shop"}),
        ("blocked", None),
        ("blocked", {"via": "key", "name": "ops", "owner": "shop"}),
        ("model", None),
    ]
    assert found[1]["details"] == {"text": "cats circus", "after": TEXTS[0]}
    assert found[2]["details"] == {"arm": len(TEXTS), "text": "cats circus"}
    assert len(changes(store, limit=2)) == 2
    assert changes(store, since=changes(store)[0].time + 60) == []
