"""What every many-armed policy promises; order-free ones also pass tests/test_contracts.py."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.registry import LIVE, MANY_ARMED, POLICIES, policy_named
from nextquery.research import replay
from nextquery.research.replay.results import read_rows
from nextquery.service.engine.engine import Engine
from nextquery.service.log.store import Store
from nextquery.service.settings import Settings
from tests.research.many_armed.worlds import ANCHOR, half_circle, play
from tests.research.replay.worlds import small_world
from tests.service.worlds import TEXTS, caught_up, options, small_pool

ORDERED = [name for name, entry in MANY_ARMED.items() if not entry.live]
EASY = [0.05] * 11 + [0.95]


def test_all_are_in_the_one_registry() -> None:
    assert len(MANY_ARMED) == 21
    assert set(MANY_ARMED) <= set(POLICIES)
    assert "adaptive-zooming" in ORDERED
    assert "moss-plus-plus" in ORDERED


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_says_what_it_assumes_and_where_it_is_from(name: str) -> None:
    entry, kind = POLICIES[name], type(policy_named(name))
    assert kind.__doc__ is not None
    assert entry.help == kind.__doc__.partition("\n")[0]
    assert entry.live == (not kind.order_matters)
    assert kind.assumptions.endswith(".")
    assert kind.reference
    if name in MANY_ARMED:
        assert kind.regret
        assert "----------" in kind.__doc__ or set(policy_named(name).get_params()) == {"seed"}


@pytest.mark.parametrize("name", MANY_ARMED)
def test_it_plays_the_good_arm_of_twelve_more_than_chance(name: str) -> None:
    """But for zooming: its balls still cover everything."""
    rounds = 200 if name == "oslb" else 600
    arms = play(policy_named(name, **_long(name)), half_circle(12), EASY, rounds)
    share = float(np.mean(np.array(arms[-rounds // 4 :]) == 11))
    assert share >= (0.0 if name == "adaptive-zooming" else 0.15), share


def _long(name: str) -> dict[str, Any]:
    names = {"horizon": 600, "lipschitz": 12.0, "best": 0.95}
    known = policy_named(name).get_params()
    return {key: value for key, value in names.items() if key in known}


@pytest.mark.parametrize("name", MANY_ARMED)
def test_saved_in_the_middle_it_goes_on_alike(name: str) -> None:
    first = policy_named(name, seed=3, **({} if "horizon" not in _long(name) else {"horizon": 150}))
    play(first, half_circle(12), EASY, 70)
    again = type(first).from_state({key: np.array(value) for key, value in first.state().items()})
    arms = play(first, half_circle(12), EASY, 50, seed=1)
    assert arms == play(again, half_circle(12), EASY, 50, seed=1)


@pytest.mark.parametrize("name", MANY_ARMED)
def test_candidates_may_come_and_go(name: str) -> None:
    policy, whole, rng = policy_named(name), half_circle(12), np.random.default_rng(5)
    for _ in range(60):
        some = whole.take(np.sort(rng.choice(12, int(rng.integers(1, 13)), replace=False)))
        choice = policy.choose(some, ANCHOR, rng)
        assert choice is not None
        assert choice.arm in some.arms
        policy.update(choice, float(choice.arm % 2))
    assert policy.choose(whole.take(np.zeros(12, np.bool_)), ANCHOR) is None


@pytest.mark.parametrize("name", MANY_ARMED)
def test_a_session_of_the_library_learns_with_it(name: str) -> None:
    pool, _ = small_world()
    rec = nq.Recommender(pool, nq.MaxUtility(k=5), nq.policy(name))
    session = rec.start("q0")
    for step in range(4):
        choice = session.recommend()
        assert choice is not None
        assert choice.id
        if step % 2:
            session.accept(choice)
        else:
            session.ignore(choice)
    learnt = rec.policy.rounds if name in ORDERED else rec.policy._seen.updates  # type: ignore[attr-defined]
    assert learnt == 4


@pytest.mark.parametrize("name", ORDERED)
class TestOrderMatters:
    def test_a_reward_that_comes_late_or_twice_is_rejected(self, name: str) -> None:
        policy, candidates = policy_named(name), half_circle(12)
        first, second = (policy.choose(candidates, ANCHOR) for _ in range(2))
        assert first is not None
        assert second is not None
        policy.update(nq.Choice.from_dict(json.loads(json.dumps(first.to_dict()))), 1.0)
        before = policy.state()
        for late in (first, second):
            with pytest.raises(InvalidInput, match=r"order of rewards .* round 1"):
                policy.update(late, 0.0)
        after = policy.state()
        assert all(np.array_equal(before[key], after[key]) for key in before)

    def test_a_correction_is_rejected(self, name: str) -> None:
        policy = policy_named(name)
        choice = policy.choose(half_circle(12), ANCHOR)
        assert choice is not None
        policy.update(choice, 0.0)
        policy.correct(choice, 0.0, 0.0)  # no change, so nothing to reject
        for new in (1.0, None):
            with pytest.raises(InvalidInput, match="cannot be corrected later"):
                policy.correct(choice, 0.0, new)

    def test_a_slate_has_one_entry(self, name: str) -> None:
        policy = policy_named(name)
        assert len(policy.rank(half_circle(12), ANCHOR, 1)) == 1
        with pytest.raises(InvalidInput, match="cannot fill a slate of 3"):
            policy.rank(half_circle(12), ANCHOR, 3)
        with pytest.raises(InvalidInput, match="m must be a whole number"):
            policy.rank(half_circle(12), ANCHOR, 0)

    def test_the_service_and_the_stream_reject_it(self, name: str) -> None:
        for where in (
            lambda: options(policy=name),
            lambda: Settings(policy=name),
            lambda: replay.StreamOptions(10, 5, policies=(name,), k=8),
        ):
            with pytest.raises(ValueError, match="state depends on the order of rewards"):
                where()

    def test_what_exploration_drew_teaches_nothing(self, name: str) -> None:
        policy, candidates = policy_named(name), half_circle(12)
        rng, before = np.random.default_rng(0), policy.state()
        for _ in range(40):
            choice = policy.choose(candidates, ANCHOR, rng, exploration=1.0)
            assert choice is not None
            if choice.features[1] < 0:
                policy.update(choice, 1.0)
                after = policy.state()
                for key in before.keys() - {"generator"}:
                    assert np.array_equal(before[key], after[key])


def test_anchored_replay_plays_all_of_them(tmp_path: Path) -> None:
    pool, past = small_world()
    names = (*MANY_ARMED, "lin-ucb")
    grid = replay.Options(anchors=3, rounds=12, k=(6,), policies=names, seeds=(0, 1))
    rows = read_rows(replay.run_grid(pool, past, tmp_path / "a", grid, processes=1) / "results.csv")
    assert {row["policy"] for row in rows} == set(names)
    assert all(0 <= float(row["regret"]) <= 12 for row in rows)


def test_the_stream_plays_those_for_which_order_does_not_matter(tmp_path: Path) -> None:
    pool, past = small_world()
    names = tuple(name for name in MANY_ARMED if name in LIVE)
    stream = replay.StreamOptions(8, 4, policies=names, k=6)
    rows = read_rows(
        replay.run_stream(pool, past, tmp_path / "s", stream, processes=1) / "stream.csv"
    )
    assert {row["policy"] for row in rows} == set(names)


@pytest.mark.parametrize("name", ["ucb-air", "thompson"])
def test_the_service_learns_late_and_resumes(name: str, tmp_path: Path) -> None:
    pool = small_pool()
    with closing(Store.open(f"sqlite:///{tmp_path / 'events.db'}")) as store:
        with Engine.start(pool, store, options(policy=name)) as engine:
            early = engine.recommend(session_id="a", query=TEXTS[0])
            engine.recommend(session_id="b", query=TEXTS[1])
            engine.feedback(decision_id=early.decision_id, accepted=early.recommendations[0].arm)
            caught_up(engine)
            learnt = engine.learner.state.model_state.policy.state()
        with Engine.start(pool, store, options(policy=name)) as engine:
            resumed = engine.learner.state.model_state.policy.state()
            assert learnt["cells"].tolist() == resumed["cells"].tolist()
            assert learnt["cells"][1].sum() >= 1
