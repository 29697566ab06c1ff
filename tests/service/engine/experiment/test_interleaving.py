"""Two policies draft one slate; clicks are credited, and each learns from what it picked."""

import numpy as np
import pytest

from nextquery.errors import InvalidInput
from nextquery.experiments.assignment import Credits
from nextquery.policies import Choice
from nextquery.service.engine.engine import Engine
from nextquery.service.exchange.export import rounds
from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference
from nextquery.service.model.experiments import policies_of
from nextquery.service.model.learner import rebuilt
from nextquery.service.settings import CONTROL
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, options

BOTH = {"policy": "lin-ucb-shared", "interleave": "lin-ts-interaction"}


def click(engine: Engine, count: int) -> list[str]:
    """Let people click; return whose entry they clicked."""
    teams = []
    for number in range(count):
        slate = engine.recommend(session_id=f"s{number}", query=TEXTS[number])
        entry = slate.recommendations[number % 4]
        teams.append(str(entry.team))
        engine.feedback(decision_id=slate.decision_id, accepted=entry.arm)
    caught_up(engine)
    return teams


def test_a_slate_is_drafted_from_both_rankings(store: Store, start: Start) -> None:
    engine = start(store, **BOTH)
    teams = click(engine, 30)
    expected = Credits()
    for team in teams:
        expected.add(team=int(team == "lin-ts-interaction"))
    found = engine.experiment()["interleaving"]
    assert found is not None
    assert found["clicks"] == expected.clicks
    assert min(found["clicks"]) > 0
    mean, low, high = expected.interval()
    within = (mean, max(-1.0, low), min(1.0, high))
    assert (found["credit"], found["low"], found["high"]) == pytest.approx(within)
    for event in store.read(0, 1000):
        if isinstance(event.body, DecisionEvent):
            body = event.body
            assert body.policy == "lin-ucb-shared + lin-ts-interaction"
            assert len(set(body.arms)) == len(body.arms) == 5
            for first, second in zip(body.slate[::2], body.slate[1::2], strict=False):
                assert {first.team, second.team} == {"lin-ucb-shared", "lin-ts-interaction"}
            assert {entry.propensity for entry in body.slate} == {0.0}  # not known
    engine.close()
    assert difference(rebuilt(store), engine.learner.state) == 0.0
    assert difference(start(store, **BOTH).learner.state, rebuilt(store)) == 0.0


def test_what_has_no_propensity_is_not_weighed(sqlite: Store, start: Start) -> None:
    click(start(sqlite, **BOTH), 10)
    assert [one for page in rounds(sqlite) for one in page] == []


def test_each_policy_learns_the_entries_that_it_picked(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, **BOTH)
    body = engine.learner.model(engine.learner.state.model)
    oracle = policies_of(body)
    for number in range(25):
        slate = engine.recommend(session_id=f"s{number}", query=TEXTS[number])
        place = number % 5
        accepted = slate.recommendations[place].arm
        engine.feedback(decision_id=slate.decision_id, accepted=accepted)
        decided = caught_up(engine).learner.decision(slate.decision_id)
        for at, entry in enumerate(slate.recommendations[: place + 1]):
            choice = Choice(entry.arm, np.array(entry.features), 0.0, 1.0)
            oracle[str(entry.team)].update(choice, float(at == place), at=decided.time)
    for name, branch in engine.learner.state.branches().items():
        found, expected = branch.policy.state(), oracle[name].state()
        for array in ("A", "b", "updates"):
            np.testing.assert_allclose(found[array], expected[array], atol=1e-12)


def test_a_late_click_replaces_what_was_learnt(sqlite: Store, start: Start) -> None:
    one, two = (start(sqlite, **BOTH) for _ in range(2))
    slate = one.recommend(session_id="s", query=TEXTS[0])
    one.feedback(decision_id=slate.decision_id, accepted=None)
    assert caught_up(one).learner.state.interleaving.credits.clicks == [0, 0]  # type: ignore[union-attr]
    arm = slate.recommendations[0].arm
    two.feedback(decision_id=slate.decision_id, accepted=arm)
    name = str(slate.recommendations[0].team)
    found = caught_up(two).learner.state.branches()[name].policy.state()
    oracle = policies_of(one.learner.model(one.learner.state.model))[name]
    choice = Choice(arm, np.array(slate.recommendations[0].features), 0.0, 1.0)
    oracle.update(choice, 1.0)
    np.testing.assert_allclose(found["A"], oracle.state()["A"], atol=1e-12)
    np.testing.assert_allclose(found["b"], oracle.state()["b"], atol=1e-12)


def test_pins_stay_on_top_and_belong_to_nobody(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, **BOTH)
    engine.pin(TEXTS[50])
    slate = engine.recommend(session_id="s", query=TEXTS[0])
    assert [entry.team is None for entry in slate.recommendations] == [True] + [False] * 4
    pinned = slate.recommendations[0]
    assert pinned.propensity == 1.0
    engine.feedback(decision_id=slate.decision_id, accepted=pinned.arm)
    assert caught_up(engine).learner.state.interleaving.credits.clicks == [0, 0]  # type: ignore[union-attr]


def test_the_control_watches_what_both_show(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, **BOTH, control_share=0.5)
    slates = [engine.recommend(session_id=f"s{n}", query=TEXTS[n]) for n in range(30)]
    assert {one.policy for one in slates} == {"lin-ucb-shared + lin-ts-interaction", CONTROL}
    for one in slates:
        engine.feedback(decision_id=one.decision_id, accepted=None)
    click(engine, 40)
    comparison = engine.learner.state.comparison
    assert comparison is not None
    assert list(comparison.shares) == ["lin-ucb-shared", CONTROL]
    assert min(comparison.sessions.values()) > 0


def test_wrong_pairs_are_refused() -> None:
    for changes in (
        {"policy": "lin-ts", "interleave": "lin-ts"},
        {"interleave": "random", "experiment": "lin-ucb-memory:0.5,random:0.5"},
    ):
        with pytest.raises(InvalidInput, match="does not go with"):
            options(**changes)
    with pytest.raises(InvalidInput, match="'nothing'"):
        options(interleave="nothing")
