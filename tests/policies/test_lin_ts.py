"""LinTS: its draws follow the Gaussian posterior."""

import numpy as np
import pytest

import nextquery as nq
from tests.policies.worlds import TopicWorld


def test_the_published_width() -> None:
    assert nq.LinTS().width(128) == pytest.approx(0.4625, abs=5e-5)
    assert nq.LinTS(v=0.2).width(128) == 0.2


def test_means_are_the_ridge_solution(pool: nq.ArmPool) -> None:
    candidates = nq.MaxUtility(12).select(pool, pool.vectors[0], exclude=[0])
    context, policy = nq.Context(pool.vectors[0]), nq.LinTS(features="arm", ridge=0.5)
    A, b = 0.5 * np.eye(8), np.zeros(8)
    for _ in range(40):
        choice = policy.choose(candidates, context)
        assert choice is not None
        expected = choice.features @ np.linalg.solve(A, b)
        assert choice.score == pytest.approx(expected, abs=1e-9)
        policy.update(choice, 1.0)
        A += np.outer(choice.features, choice.features)
        b += choice.features


def test_draws_follow_the_posterior() -> None:
    """For two arms with independent Gaussian posteriors, the probability of a win is known."""
    pool = nq.ArmPool.from_vectors(["a", "b"], [[1, 0], [0, 1]])
    candidates = nq.MaxUtility(2).select(pool, [1, 1])
    context, policy = nq.Context(np.ones(2)), nq.LinTS(v=0.5, features="arm", draws=40_000)
    for arm, rewards in ((0, [1.0, 0.0, 1.0]), (1, [0.5])):
        for reward in rewards:
            choice = policy.as_choice(candidates, context, arm)
            assert choice is not None
            policy.update(choice, reward)
    # posteriors: N(2/4, 0.25/4) and N(0.5/2, 0.25/2)
    from scipy.stats import norm

    wins = norm.cdf((0.5 - 0.25) / np.sqrt(0.25 / 4 + 0.25 / 2))
    choice = policy.choose(candidates, context)
    assert choice is not None
    propensity = choice.propensity if choice.arm == 0 else 1 - choice.propensity
    assert propensity == pytest.approx(wins, abs=0.01)
    assert choice.propensity_estimated


def test_it_learns_transitions() -> None:
    assert TopicWorld().play(nq.LinTS(v=0.1, ridge=0.01, draws=1), 1500) > 0.9
