"""Sessions are divided between policies; each policy answers and learns alone."""

from collections import Counter

import numpy as np
import pytest

from nextquery.errors import InvalidInput
from nextquery.experiments.assignment import policy_of
from nextquery.policies import Policy
from nextquery.service.engine.engine import Engine
from nextquery.service.log.events import DecisionEvent
from nextquery.service.log.store import Store
from nextquery.service.maintain.repair import difference
from nextquery.service.model.experiments import policies_of
from nextquery.service.model.learner import rebuilt
from nextquery.service.settings import CONTROL
from tests.service.conftest import Start
from tests.service.worlds import TEXTS, caught_up, options

SPLIT = {"policy": "lin-ucb-shared", "experiment": "lin-ts-interaction:0.5,lin-ucb-shared:0.5"}


def visit(engine: Engine, count: int, *, click: bool = True) -> Counter[str]:
    """Let sessions ask one query each and click; return how many had which policy."""
    seen: Counter[str] = Counter()
    for number in range(count):
        slate = engine.recommend(session_id=f"s{number}", query=TEXTS[number % 60])
        seen[slate.policy] += 1
        if click:
            arm = slate.recommendations[number % 2].arm
            engine.feedback(decision_id=slate.decision_id, accepted=arm)
    caught_up(engine)
    return seen


def test_a_session_has_the_policy_that_its_keyed_hash_gives_it(store: Store, start: Start) -> None:
    engine = start(store, **SPLIT, control_share=0.2)
    shares = {"lin-ucb-shared": 0.4, "lin-ts-interaction": 0.4, CONTROL: 0.2}
    seen = visit(engine, 60)
    expected = Counter(
        policy_of(f"\0s{number}", shares, secret=store.head().secret) for number in range(60)
    )
    assert seen == expected
    assert len(seen) == 3
    again = start(store, **SPLIT, control_share=0.2)  # another worker, and a later query
    for number in range(60):
        slate = again.recommend(session_id=f"s{number}", query=TEXTS[(number + 7) % 60])
        known = engine.recommend(session_id=f"s{number}", query=TEXTS[(number + 9) % 60])
        assert slate.policy == known.policy


def test_each_policy_learns_from_its_own_sessions_alone(store: Store, start: Start) -> None:
    engine = start(store, **SPLIT, control_share=0.2)
    fresh = {name: policy.state() for name, policy in _written(engine).items()}
    seen = visit(engine, 60)
    state = engine.learner.state
    for name, branch in state.branches().items():
        updates = branch.policy.updates_since(_written(engine)[name])
        if name == CONTROL:
            assert updates == 0
        else:
            assert 0 < seen[name] <= updates <= 2 * seen[name]  # what failed above a click, too
    assert fresh["lin-ucb-shared"].keys() <= state.model_state.policy.state().keys()
    engine.close()
    assert difference(rebuilt(store), engine.learner.state) == 0.0
    again = start(store, **SPLIT, control_share=0.2)  # from the snapshot
    assert again.learner.position == store.head().position
    assert difference(again.learner.state, engine.learner.state) == 0.0
    comparison = again.learner.state.comparison
    assert comparison is not None
    for shares in (again.learner.state.shares, comparison.shares):
        assert [*shares] == ["lin-ucb-shared", "lin-ts-interaction", CONTROL]
    again.close()
    with_others = start(store, **SPLIT, control_share=0.2, k=15)  # another model, the same split
    assert with_others.learner.state.comparison.sessions == comparison.sessions  # type: ignore[union-attr]
    assert sum(comparison.sessions.values()) == 60


def test_a_policy_learns_as_if_the_others_were_not_there(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, **SPLIT)
    visit(engine, 40)
    events = list(sqlite.read(0, 1000))
    own = {
        event.decision_id
        for event in events
        if isinstance(event.body, DecisionEvent) and event.body.policy == "lin-ts-interaction"
    }
    oracle = _written(engine)["lin-ts-interaction"]
    for event in events:
        if event.kind == "feedback" and event.decision_id in own:
            decided = engine.learner.decision(str(event.decision_id))
            for _, example in engine.learner.state.lessons(event.body, decided):  # type: ignore[arg-type]
                example.learn(oracle, decided.time)
    found = engine.learner.state.other_branches["lin-ts-interaction"].policy.state()
    for name, array in oracle.state().items():
        np.testing.assert_array_equal(found[name], array)


def test_the_control_shows_the_most_similar_queries(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, policy="lin-ucb-shared", control_share=0.5, exploration=0.5)
    for number in range(30):
        slate = engine.recommend(session_id=f"s{number}", query=TEXTS[number])
        if slate.policy == CONTROL:
            vector = engine.pool.row(number)
            ids, similarities = engine.pool.nearest(vector, 5, exclude=[number])
            assert [one.arm for one in slate.recommendations] == ids.tolist()
            assert [one.propensity for one in slate.recommendations] == [1.0] * 5
            scores = [one.score for one in slate.recommendations]
            np.testing.assert_array_equal(scores, similarities)
            assert not slate.fallback
            break
    else:
        raise AssertionError("no session of the control")


def test_who_stays_keeps_what_it_has_learnt(store: Store, start: Start) -> None:
    """The experiment ends: the winner goes on, whichever it was; a later one starts anew."""
    engine = start(store, **SPLIT)
    late = [engine.recommend(session_id=f"late{n}", query=TEXTS[n]) for n in range(20)]
    visit(engine, 30)
    engine.close()
    branches = engine.learner.state.branches()
    learnt = {
        name: branch.policy.updates_since(_written(engine)[name])
        for name, branch in branches.items()
    }
    other = start(store, policy="lin-ts-interaction")
    state = other.learner.state
    assert list(state.branches()) == ["lin-ts-interaction"]
    assert not state.other_branches
    base = _written(other)["lin-ts-interaction"]
    assert state.model_state.policy.updates_since(base) == learnt["lin-ts-interaction"]
    lessons = 0
    for slate in late:  # late clicks on decisions of the loser teach nothing any more
        arm = slate.recommendations[0].arm
        other.feedback(decision_id=slate.decision_id, accepted=arm)
        lessons += slate.policy == "lin-ts-interaction"
    now = caught_up(other).learner.state.model_state.policy.updates_since(base)
    assert now == learnt["lin-ts-interaction"] + lessons
    assert 0 < lessons < 20
    other.close()
    assert difference(rebuilt(store), other.learner.state) == 0.0
    back = start(store, policy="lin-ts-interaction", control_share=0.1)
    assert (
        back.learner.state.model_state.policy.updates_since(_written(back)["lin-ts-interaction"])
        == now
    )


def test_the_main_policy_may_change_places(sqlite: Store, start: Start) -> None:
    engine = start(sqlite, policy="lin-ucb-shared")
    visit(engine, 10)
    engine.close()
    learnt = engine.learner.state.model_state.policy.updates_since(
        _written(engine)["lin-ucb-shared"]
    )
    other = start(sqlite, **SPLIT | {"policy": "lin-ts-interaction"})
    state = other.learner.state
    fresh = _written(other)
    assert (
        state.other_branches["lin-ucb-shared"].policy.updates_since(fresh["lin-ucb-shared"])
        == learnt
    )
    assert state.model_state.policy.updates_since(fresh["lin-ts-interaction"]) == 0
    late = {1: "lin-ucb-shared"}
    assert state.other_branches["lin-ucb-shared"].learns_from(1, late[1])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"experiment": "random:0.5,lin-ts:0.5"}, "does not have policy = lin-ucb-memory"),
        ({"experiment": "random"}, "two or more policies"),
        ({"experiment": "lin-ucb-memory:0.5,nothing:0.5"}, "nothing"),
        ({"experiment": "lin-ucb-memory:0.5,k-failure:0.5"}, "cannot learn from users"),
        ({"control_share": 0.6}, "control_share must be"),
    ],
)
def test_bad_splits_are_refused(changes: dict[str, object], error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        options(**changes)


def _written(engine: Engine) -> dict[str, Policy]:
    return policies_of(engine.learner.model(engine.learner.state.model))
