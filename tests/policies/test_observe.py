"""Contract of full observations, for every policy of the registry."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.policies.packed import MOST, Vectors
from nextquery.policies.registry import policy_named
from nextquery.policies.ridge import REFRESH, Ridge
from tests.policies.worlds import LEARN_DIFFERENTLY

FADING = [
    f"{name}@half_life=3"
    for name in LEARN_DIFFERENTLY
    if "half_life" in policy_named(name).get_params()
]
LEARNING = [name for name in LEARN_DIFFERENTLY if policy_named(name).learns] + FADING
STILL = [name for name in LEARN_DIFFERENTLY if not policy_named(name).learns]
PER_ARM = ("disjoint", "arm rewards")
DAY = 86400.0


def step(pool: nq.ArmPool, anchor: int = 0, k: int = 12) -> tuple[nq.Candidates, nq.Context]:
    vector = pool.vectors[anchor]
    candidates = nq.MaxUtility(k=k).select(pool, vector, exclude=[anchor])
    features = np.random.default_rng(anchor).normal(size=(len(candidates), 5))
    return replace(candidates, features=features.astype(np.float32)), nq.Context(vector)


def numbers(policy: nq.Policy) -> dict[str, Any]:
    return {name: a for name, a in policy.state().items() if a.dtype.kind in "fi"}


def choice_of(policy: nq.Policy, pool: nq.ArmPool, anchor: int, place: int) -> nq.Choice:
    candidates, context = step(pool, anchor)
    choice = policy.as_choice(candidates, context, int(candidates.arms[place]))
    assert choice is not None
    return choice


def experienced(name: str, pool: nq.ArmPool) -> nq.Policy:
    """Return a policy that has learnt a few things at different times."""
    policy = policy_named(name)
    for i in range(6):
        policy.update(choice_of(policy, pool, i, 2 * i), float(i % 2), at=i * DAY)
    return policy


def assert_same(first: nq.Policy, second: nq.Policy, *, but: tuple[str, ...] = ()) -> None:
    a, b = numbers(first), numbers(second)
    for name in (a.keys() | b.keys()) - set(but):
        size = np.abs(a[name]).max(initial=1.0)
        np.testing.assert_allclose(a[name], b[name], rtol=1e-9, atol=1e-9 * size, err_msg=name)


@pytest.mark.parametrize("name", LEARNING)
@pytest.mark.parametrize("place", [3, None])
def test_a_step_is_each_candidate_one_by_one(
    name: str, place: int | None, pool: nq.ArmPool
) -> None:
    candidates, context = step(pool, 9)
    whole, single = experienced(name, pool), experienced(name, pool)
    success = None if place is None else choice_of(whole, pool, 9, place)
    before = policy_named(name).from_state(whole.state())
    whole.observe(whole.failures(candidates, context), success, at=7 * DAY)
    for i, arm in enumerate(candidates.arms.tolist()):
        choice = single.as_choice(candidates, context, arm)
        assert choice is not None
        single.update(choice, float(i == place), at=7 * DAY)
    assert whole.updates_since(before) == 1
    a, b = numbers(whole), numbers(single)
    for key in b.keys() - {"updates", "shared_updates", "weight", "shared_weight"}:
        np.testing.assert_allclose(a[key], b[key], rtol=1e-6, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", LEARNING)
def test_what_is_taken_back_was_never_there(name: str, pool: nq.ArmPool) -> None:
    policy, without = experienced(name, pool), experienced(name, pool)
    failures = policy.failures(*step(pool, 9))
    success = choice_of(policy, pool, 9, 4)
    policy.observe(failures, success, at=2 * DAY)
    for both in (policy, without):
        both.update(choice_of(policy, pool, 8, 1), 1.0, at=9 * DAY)
    policy.observe(failures, success, sign=-1, at=2 * DAY)
    assert_same(policy, without)


@pytest.mark.parametrize("name", LEARNING)
def test_the_same_calls_give_the_same_bytes(name: str, pool: nq.ArmPool) -> None:
    """Also if the policy was saved and restored in between."""

    def learn(policy: nq.Policy, anchors: range) -> None:
        for i in anchors:
            failures = policy.failures(*step(pool, i), np.random.default_rng(i))
            policy.observe(failures, choice_of(policy, pool, i, i % 12), at=i * DAY)
            policy.correct(choice_of(policy, pool, i, 1), None, 1.0, at=i * DAY / 2)

    first, second = experienced(name, pool), experienced(name, pool)
    learn(first, range(10))
    learn(second, range(4))
    second = type(second).from_state(second.state())
    learn(second, range(4, 10))
    ours, theirs = first.state(), second.state()
    assert ours.keys() == theirs.keys()
    for key, array in ours.items():
        assert (array.dtype, array.tobytes()) == (theirs[key].dtype, theirs[key].tobytes()), key


@pytest.mark.parametrize("name", STILL)
def test_a_policy_that_learns_nothing_packs_nothing(name: str, pool: nq.ArmPool) -> None:
    policy, other = policy_named(name), policy_named("lin-ucb")
    assert policy.failures(*step(pool)) == b""
    policy.observe(other.failures(*step(pool)), None)
    assert policy.updates_since(policy_named(name)) == 0


@pytest.mark.parametrize("name", LEARN_DIFFERENTLY)
def test_no_candidates_teach_nothing(name: str, pool: nq.ArmPool) -> None:
    candidates, context = step(pool)
    policy = experienced(name, pool)
    before = {key: array.tobytes() for key, array in policy.state().items()}
    assert policy.failures(candidates.take(np.zeros(12, bool)), context) == b""
    policy.observe(b"", choice_of(policy, pool, 1, 1), at=99 * DAY)
    assert {key: array.tobytes() for key, array in policy.state().items()} == before


@pytest.mark.parametrize("name", LEARNING)
def test_damage_changes_nothing(name: str, pool: nq.ArmPool) -> None:
    policy = experienced(name, pool)
    failures = policy.failures(*step(pool, 9))
    success = choice_of(policy, pool, 9, 4)
    other = "lin-ucb-memory" if "feedback" in name or policy.learns in PER_ARM else "lin-ucb"
    before = {key: array.tobytes() for key, array in policy.state().items()}
    wrong: list[tuple[Any, Any, dict[str, Any]]] = [
        (failures[:-1], success, {}),
        (failures + b"\0", success, {}),
        (b"\x09" + failures[1:], success, {}),
        (policy_named(other).failures(*step(pool, 9)), success, {}),
        (failures, success, {"sign": 0}),
        (failures, success, {"at": float("nan")}),
        (failures, success, {"at": "now"}),
    ]
    if policy.learns in PER_ARM:
        wrong.append((failures, replace(success, arm=-1), {}))
    else:
        wrong.append((failures, replace(success, features=success.features[:-2]), {}))
        for width in (3, 20):
            rows = np.random.default_rng(0).normal(size=(40, width))
            another = nq.ArmPool.from_vectors(pool.texts, rows)
            candidates, context = step(another)
            features = np.ones((12, width), "f4")
            other_width = policy_named(name).failures(
                replace(candidates, features=features), context
            )
            wrong.append((other_width, None, {}))
    for data, choice, options in wrong:
        with pytest.raises(InvalidInput):
            policy.observe(data, choice, **{"at": 8 * DAY, **options})
        assert {key: array.tobytes() for key, array in policy.state().items()} == before


@pytest.mark.parametrize("name", LEARNING)
@given(k=st.integers(1, 39), seed=st.integers(0, 9))
def test_a_step_is_small(name: str, pool: nq.ArmPool, k: int, seed: int) -> None:
    wide = nq.ArmPool.from_vectors(pool.texts, np.random.default_rng(seed).normal(size=(40, 300)))
    policy = policy_named(name, seed=seed)
    failures = policy.failures(*step(wide, 3, k))
    assert 0 < len(failures) <= MOST
    policy.observe(failures, choice_of(policy, wide, 3, 0))
    assert all(np.isfinite(array).all() for array in numbers(policy).values())


def test_samples_are_right_on_average() -> None:
    """LinUCB over 300 features, and FeedbackUCB with room for a few vectors after the arms."""
    rng = np.random.default_rng(5)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(40)], rng.normal(size=(40, 300)))
    candidates, context = step(pool, 0, 30)
    for kind, prefix in ((nq.LinUCB, ""), (nq.FeedbackUCB, "shared_")):
        exact, sampled = kind(), kind()
        for arm in candidates.arms.tolist():
            choice = exact.as_choice(candidates, context, arm)
            assert choice is not None
            exact.update(choice, 0.0)
        for seed in range(400):
            failures = sampled.failures(candidates, context, np.random.default_rng(seed))
            sampled.observe(failures, None)
        ridge = 1.0 if kind is nq.LinUCB else 30.0
        sums, b = exact.state()[f"{prefix}A"] - ridge * np.eye(300), exact.state()[f"{prefix}b"]
        found = (sampled.state()[f"{prefix}A"] - ridge * np.eye(300)) / 400
        assert np.linalg.norm(found - sums) < 0.25 * np.linalg.norm(sums)
        assert np.trace(found) == pytest.approx(np.trace(sums), rel=0.01)
        error = np.linalg.norm(sampled.state()[f"{prefix}b"] / 400 - b)
        assert error <= 0.25 * np.linalg.norm(b)
        assert sampled.updates_since(kind()) == 400


def test_feedback_without_room_for_vectors_learns_its_arms() -> None:
    rng = np.random.default_rng(5)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(800)], rng.normal(size=(800, 20)))
    policy = nq.FeedbackUCB()
    candidates, context = step(pool, 0, 740)
    policy.observe(policy.failures(candidates, context), None)
    state = policy.state()
    assert state["arms"].tolist() == sorted(candidates.arms.tolist())
    assert not state["shared_b"].any()


def test_fractional_plays_are_kept() -> None:
    """Too many arms for a step: a sample is played n/s times each."""
    rng = np.random.default_rng(5)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(1000)], rng.normal(size=(1000, 4)))
    policy = nq.LinUCB(model="disjoint")
    failures = policy.failures(*step(pool, 0, 900))
    policy.observe(failures, None)
    again = nq.LinUCB.from_state(policy.state())
    assert again.state()["plays"].sum() == pytest.approx(900)
    assert again.state()["plays"].tolist() == pytest.approx([900 / 745] * 745)
    assert again.updates_since(nq.LinUCB(model="disjoint")) == 1
    again.observe(failures, None, sign=-1)
    assert again.state()["arms"].size == 0


@pytest.mark.parametrize("half_life", [None, 0.5])
@pytest.mark.parametrize("rows", [3, 8])
def test_the_leading_candidates_are_found_after_steps(rows: int, half_life: float | None) -> None:
    """The bound that `leading` prunes with holds after steps, their removal and time."""
    rng, model = np.random.default_rng(rows), Ridge(1.0, half_life=half_life)
    steps = list[tuple[Any, ...]]()
    for i in range(REFRESH + 90):
        if i % 5 == 4:
            failed, b, at = steps.pop(int(rng.integers(len(steps))))
            model.observe(failed, b, sign=-1, at=at)
        else:
            x = rng.normal(size=(rows, 8)) * np.geomspace(0.05, 3.0, 8)
            steps.append((Vectors(x, 2.0), x[0], i * 3600.0))
            model.observe(*steps[-1][:2], at=steps[-1][2])
        if i % 20 == 0:
            np.testing.assert_allclose(model.inverse @ model.A, np.eye(8), atol=1e-8)
            assert model.largest >= np.linalg.eigvalsh(model.inverse)[-1]
            probe = rng.normal(size=(300, 8))
            scores = model.means(probe) + 0.5 * model.widths(probe)
            (found,) = model.leading([probe], 0.5, [5], 1e-9)
            assert np.argsort(-found)[:5].tolist() == np.argsort(-scores)[:5].tolist()
