"""FeedbackUCB against the formula, and in a world where failures are informative."""

import numpy as np
import pytest

import nextquery as nq


def test_the_order_of_cold_arms_is_the_ridge_solution(pool: nq.ArmPool) -> None:
    """w solves (λI + Σ xxᵀ) w = Σ x (r − sim)."""
    vector = pool.vectors[0]
    candidates = nq.MaxUtility(k=20).select(pool, vector, exclude=[0])
    policy, context = nq.FeedbackUCB(feedback=2.0), nq.Context(vector)
    X, s = candidates.vectors.astype(np.float64), candidates.similarities
    remaining = list(range(20))
    A, b = 2.0 * np.eye(8), np.zeros(8)
    for _ in range(12):
        expected = s + X @ np.linalg.solve(A, b)
        best = max(remaining, key=lambda j: expected[j])
        choice = policy.choose(candidates, context)
        assert choice is not None
        assert choice.arm == candidates.arms[best]
        policy.update(choice, 0.0)
        remaining.remove(best)
        A += np.outer(X[best], X[best])
        b += X[best] * (0.0 - s[best])


def test_a_crowd_of_failures_is_left_sooner() -> None:
    """Nine near-copies are nearer than the target: similarity alone tries all of them first."""
    angle = np.linspace(0.30, 0.32, 9)
    crowd = np.column_stack([np.cos(angle), np.sin(angle), 0 * angle])
    target = [[np.cos(0.4), 0.0, np.sin(0.4)]]
    names = [f"q{i}" for i in range(10)]
    pool = nq.ArmPool.from_vectors(names, np.concatenate([crowd, target]))

    def trials(policy: nq.Policy) -> int:
        candidates = nq.MaxUtility(k=10).select(pool, [1, 0, 0])
        for trial in range(1, 11):
            choice = policy.choose(candidates, nq.Context([1, 0, 0]))
            assert choice is not None
            if choice.arm == 9:
                return trial
            policy.update(choice, 0.0)
        raise AssertionError("never found")

    assert trials(nq.LinUCB(model="disjoint")) == 10
    assert trials(nq.FeedbackUCB(feedback=1.0)) < 5


def test_what_pays_is_played_again(pool: nq.ArmPool) -> None:
    candidates = nq.MaxUtility(k=10).select(pool, pool.vectors[0], exclude=[0])
    policy, context = nq.FeedbackUCB(), nq.Context(pool.vectors[0])
    first = policy.choose(candidates, context)
    assert first is not None
    policy.update(first, 1.0)
    again = policy.choose(candidates, context)
    assert again is not None
    assert again.arm == first.arm
    assert again.score == pytest.approx(0.5 + 0.3 / np.sqrt(2))
