"""LinUCB: scores by definition, tie-breaking, and what it can and cannot learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import nextquery as nq
from nextquery.vectors import unit_rows
from tests.policies.worlds import TopicWorld


def candidates_of(pool: nq.ArmPool, k: int = 12) -> tuple[nq.Candidates, nq.Context]:
    return (
        nq.MaxUtility(k).select(pool, pool.vectors[0], exclude=[0]),
        nq.Context(pool.vectors[0]),
    )


@pytest.mark.parametrize("features", ["arm", "interaction"])
def test_scores_are_the_definition(pool: nq.ArmPool, features: str) -> None:
    candidates, context = candidates_of(pool)
    policy = nq.LinUCB(alpha=0.4, ridge=0.5, features=features, prior=None)
    A, b = 0.5 * np.eye(8), np.zeros(8)
    rng = np.random.default_rng(0)
    for _ in range(60):
        choice = policy.choose(candidates, context, rng)
        assert choice is not None
        x = candidates.vectors.astype(float)
        if features == "interaction":
            x = x * np.asarray(context.anchor, float)
        scores = x @ np.linalg.solve(A, b) + 0.4 * np.sqrt(
            np.einsum("ij,ij->i", x, np.linalg.solve(A, x.T).T)
        )
        assert choice.score == pytest.approx(scores.max(), abs=1e-9)
        reward = float(choice.arm % 2)
        policy.update(choice, reward)
        A += np.outer(choice.features, choice.features)
        b += reward * choice.features


@given(
    st.integers(0, 2000),
    st.sampled_from(["arm", "interaction"]),
    st.sampled_from([0.0, 0.3, 3.0]),
    st.integers(1, 40),
    st.sampled_from([0.0, 0.5]),
)
def test_bounds_change_nothing(
    seed: int, features: str, alpha: float, m: int, exploration: float
) -> None:
    """The slate is the same as when every candidate is scored, up to rounding of scores."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 120))
    vectors = unit_rows(rng.normal(size=(n, 5)) + rng.normal(size=5))
    vectors[rng.integers(n, size=n // 4)] = vectors[0]  # twins tie
    flat = np.full(n, 1 / n)
    candidates = nq.Candidates(np.arange(n), vectors, flat, flat)
    context = nq.Context(rng.normal(size=5))
    policy = nq.LinUCB(alpha, features=features, prior=["preference", None][seed % 2])
    for _ in range(int(rng.integers(0, 60))):
        x = rng.normal(size=5)
        policy.update(nq.Choice(0, x, 0.0, 1.0), float(rng.random()))
    scoring_all = ScoresAll.from_state(policy.state())
    draws = [np.random.default_rng(seed), np.random.default_rng(seed)]
    found = policy.rank(candidates, context, m, draws[0], exploration=exploration)
    expected = scoring_all.rank(candidates, context, m, draws[1], exploration=exploration)
    assert [choice.arm for choice in found] == [choice.arm for choice in expected]
    assert [choice.propensity for choice in found] == [choice.propensity for choice in expected]
    assert [c.score for c in found] == pytest.approx([c.score for c in expected], abs=1e-12)


class ScoresAll(nq.LinUCB):
    """LinUCB that scores every candidate."""

    def _leading_scores(
        self,
        candidates: Sequence[nq.Candidates],
        features: Sequence[NDArray[Any]],
        m: Sequence[int],
    ) -> list[NDArray[Any]]:
        return [self._scores(*one) for one in zip(candidates, features, strict=True)]


def test_few_widths_are_computed() -> None:
    """At first a bound equals the width. It stays tight if candidates share a learnt direction,
    even if no reward distinguishes them."""
    rng = np.random.default_rng(0)
    anchor = unit_rows(rng.normal(size=(1, 64)))[0]
    rows, flat = unit_rows(rng.normal(size=(1000, 64)) / 8 + anchor), np.full(1000, 1e-3)
    candidates, context = nq.Candidates(np.arange(1000), rows, flat, flat), nq.Context(anchor)
    policy = nq.LinUCB()
    features = policy._features(candidates, context)
    assert np.isfinite(policy._leading_scores([candidates], [features], [1])[0]).sum() < 10
    for _ in range(100):
        choice = policy.choose(candidates, context)
        assert choice is not None
        policy.update(choice, 0.0)
    assert np.isfinite(policy._leading_scores([candidates], [features], [1])[0]).sum() < 100


def test_prior_none_tries_cold_arms_in_random_order(pool: nq.ArmPool) -> None:
    candidates, context = candidates_of(pool)
    orders = set()
    for seed in range(20):
        policy, rng = nq.LinUCB(model="disjoint", prior=None), np.random.default_rng(seed)
        order: list[int] = []
        for _ in range(12):
            choice = policy.choose(candidates, context, rng)
            assert choice is not None
            assert choice.propensity == pytest.approx(1 / (12 - len(order)))
            order.append(choice.arm)
            policy.update(choice, 0.0)
        assert sorted(order) == sorted(candidates.arms.tolist())
        orders.add(tuple(order))
    assert len(orders) == 20


def test_prior_preference_tries_cold_arms_in_order_of_preference(pool: nq.ArmPool) -> None:
    candidates, context = candidates_of(pool)
    shuffled = candidates.take(np.random.default_rng(0).permutation(12))
    policy, order = nq.LinUCB(model="disjoint"), []
    for _ in range(12):
        choice = policy.choose(shuffled, context)
        assert choice is not None
        assert choice.propensity == 1
        order.append(choice.arm)
        policy.update(choice, 0.0)
    assert order == candidates.arms.tolist()


def test_scores_within_a_billionth_are_ties(pool: nq.ArmPool) -> None:
    candidates, context = candidates_of(pool, k=2)
    for gap, tie in ((1e-10, True), (1e-8, False)):
        policy = nq.LinUCB(model="disjoint", prior=None)
        second = policy.as_choice(candidates, context, int(candidates.arms[1]))
        first = policy.as_choice(candidates, context, int(candidates.arms[0]))
        assert first is not None
        assert second is not None
        policy.update(first, 1.0)
        policy.update(second, 1.0 + gap * 2)
        choice = policy.choose(candidates, context)
        assert choice is not None
        assert choice.propensity == (0.5 if tie else 1.0)


def test_disjoint_counts_the_length_of_a_vector_as_exactly_one(pool: nq.ArmPool) -> None:
    candidates, context = candidates_of(pool)
    scores = [choice.score for choice in nq.LinUCB(model="disjoint").rank(candidates, context, 12)]
    assert set(scores) == {0.3}


def test_a_slate_is_in_order_of_score(pool: nq.ArmPool) -> None:
    candidates, context = candidates_of(pool)
    policy = nq.LinUCB()
    choice = policy.choose(candidates, context)
    assert choice is not None
    policy.update(choice, 1.0)
    scores = [choice.score for choice in policy.rank(candidates, context, 12)]
    assert scores == sorted(scores, reverse=True)


def test_coefficients_of_a_linear_world_are_recovered(rng: np.random.Generator) -> None:
    """Rewards have mean θᵀx: after 5,000 rounds the model has found θ."""
    theta = np.array([0.5, 0.3, -0.2, 0.1])
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(60)], rng.normal(size=(60, 4)))
    policy = nq.LinUCB(alpha=1.0, features="arm")
    chance = np.clip(0.5 + pool.vectors @ theta, 0, 1) - 0.5  # centred, so no intercept is needed
    context = nq.Context(np.ones(4))
    for _ in range(5000):
        few = nq.RandomSelection(6).select(pool, np.ones(4), rng=rng)
        choice = policy.choose(few, context, rng)
        assert choice is not None
        policy.update(choice, float(chance[choice.arm] + rng.normal() * 0.1))
    found = policy.state()["inverse"] @ policy.state()["b"]
    assert np.allclose(found, theta, atol=0.05)


@pytest.mark.soak
def test_interaction_features_learn_transitions_and_arm_features_cannot() -> None:
    world = TopicWorld()
    assert world.play(nq.LinUCB(alpha=0.1, ridge=0.01, features="interaction"), 2000) > 0.95
    assert world.play(nq.LinUCB(alpha=0.1, ridge=0.01, features="arm"), 2000) < 0.3
    assert world.play(nq.RandomPolicy(), 2000) < 0.3


def test_memory_is_the_played_arms_only() -> None:
    """A disjoint policy that was offered 100,000 different arms stores only the 100 it played."""
    policy = nq.LinUCB(model="disjoint")
    vectors = unit_rows(np.random.default_rng(0).normal(size=(1000, 4)))
    for start in range(0, 100_000, 1000):
        arms = np.arange(start, start + 1000)
        flat = np.full(1000, 1e-3)
        choice = policy.choose(nq.Candidates(arms, vectors, flat, flat), nq.Context(vectors[0]))
        assert choice is not None
        policy.update(choice, 0.0)
    assert len(policy.state()["arms"]) == 100


@pytest.mark.parametrize("name", ["lin-ucb-shared", "lin-ucb", "lin-ts", "most-similar", "random"])
def test_many_slates_are_those_of_one_after_the_other(name: str) -> None:
    """Sets of different sizes, some too small for a bound, with draws of their own."""
    rng = np.random.default_rng(0)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(400)], rng.normal(size=(400, 5)))
    anchors = unit_rows(rng.normal(size=(9, 5)))
    sizes = [1, 3, 20, 33, 60, 100, 200, 300, 2]
    candidates = [
        nq.MaxUtility(k=k).select(pool, anchor) for k, anchor in zip(sizes, anchors, strict=True)
    ]
    contexts, m = [nq.Context(anchor) for anchor in anchors], [5, 1, 7, 40, 5, 5, 3, 5, 5]
    policy = nq.policy(name)
    for _ in range(20):
        choice = policy.choose(candidates[5], contexts[5])
        assert choice is not None
        policy.update(choice, float(rng.random() < 0.4))

    def draws() -> list[np.random.Generator]:
        return [np.random.default_rng(seed) for seed in range(9)]

    many = policy.rank_many(candidates, contexts, m, draws(), exploration=0.3)
    for found, c, x, length, own in zip(many, candidates, contexts, m, draws(), strict=True):
        alone = policy.rank(c, x, length, own, exploration=0.3)
        assert [choice.to_dict() for choice in found] == [choice.to_dict() for choice in alone]
