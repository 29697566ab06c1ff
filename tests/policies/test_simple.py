import numpy as np
import pytest

import nextquery as nq


def test_most_similar_is_uniform_over_the_five_most_preferred(pool: nq.ArmPool) -> None:
    candidates = nq.MaxUtility(12).select(pool, pool.vectors[0])
    shuffled = candidates.take(np.random.default_rng(1).permutation(12))
    policy, context, rng = nq.MostSimilar(), nq.Context(pool.vectors[0]), np.random.default_rng(0)
    seen = [policy.choose(shuffled, context, rng) for _ in range(300)]
    assert {c.arm for c in seen if c} == set(candidates.arms[:5].tolist())
    assert all(c.propensity == pytest.approx(0.2) for c in seen if c)


def test_random_is_uniform_over_all(pool: nq.ArmPool) -> None:
    candidates = nq.MaxUtility(12).select(pool, pool.vectors[0])
    slate = nq.RandomPolicy().rank(candidates, nq.Context(pool.vectors[0]), 12)
    assert [c.propensity for c in slate] == pytest.approx([1 / n for n in range(12, 0, -1)])
