"""The naive selections against the preferences of the whole pool."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq

READINGS = ["example", "defined", "joint"]


def preferences(pool: nq.ArmPool, anchor: Any, epsilon: float, reading: str) -> Any:
    similarities = pool.score(range(pool.rows_in_all), anchor)
    return nq.preference.marginal(similarities, epsilon, reading)


@given(
    st.integers(0, 300),
    st.sampled_from([0.0, 0.5, 1.0, 1.7, 5.0]),
    st.sampled_from([0.0, 0.3, 0.7]),
    st.sampled_from(READINGS),
)
def test_threshold_is_all_arms_preferred_enough(
    seed: int, times: float, epsilon: float, reading: str
) -> None:
    rng = np.random.default_rng(seed)
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(25)], rng.normal(size=(25, 4)))
    anchor = rng.normal(size=4)
    p = preferences(pool, anchor, epsilon, reading)
    clear = np.abs(p - times / 25) > 1e-6 * p.max()  # the sums are float32's
    found = nq.PreferenceThreshold(times, epsilon=epsilon, reading=reading).select(pool, anchor)
    chosen = np.isin(np.arange(25), found.arms)
    assert (chosen[clear] == (p >= times / 25)[clear]).all()


def test_threshold_when_nothing_is_similar() -> None:
    pool = nq.ArmPool.from_vectors(["a", "b"], [[-1.0, 0.0], [-1.0, -1.0]])
    assert len(nq.PreferenceThreshold(1.0).select(pool, [1, 0])) == 2
    assert len(nq.PreferenceThreshold(1.1).select(pool, [1, 0])) == 0


@pytest.mark.parametrize("reading", READINGS)
def test_sample_follows_the_preferences(reading: str) -> None:
    """First draws of 4,000 samples against P: a chi-square that a wrong weight would fail."""
    rng = np.random.default_rng(2)
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(12)], rng.normal(size=(12, 4)) + 0.3)
    anchor = np.array([1.0, 1, 0, 0])
    p = preferences(pool, anchor, 0.5, reading)
    p = p / p.sum()
    selector = nq.PreferenceSample(1, reading=reading)
    draws = selector.select_many(pool, np.tile(anchor, (4000, 1)), rng=rng)
    counts = np.bincount([int(c.arms[0]) for c in draws], minlength=12)
    assert not counts[p == 0].any()
    expected = 4000 * p[p > 0]
    statistic = ((counts[p > 0] - expected) ** 2 / expected).sum()
    assert statistic < 2 * len(expected) + 15


@given(st.integers(0, 200), st.sampled_from(READINGS), st.integers(1, 30))
def test_sample_is_the_race_on_exact_preferences(seed: int, reading: str, k: int) -> None:
    """Judging by float32 first changes nothing: the same draws give the same arms."""
    rng = np.random.default_rng(seed)
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(25)], rng.normal(size=(25, 4)))
    anchor = rng.normal(size=4)
    p = preferences(pool, anchor, 0.5, reading)
    times = np.random.default_rng(5).standard_exponential(25)
    with np.errstate(divide="ignore"):
        expected = np.lexsort((times, times / p))[:k]
    selector = nq.PreferenceSample(k, reading=reading)
    found = selector.select(pool, anchor, rng=np.random.default_rng(5))
    assert set(found.arms.tolist()) == set(expected.tolist())
