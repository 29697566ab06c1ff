"""The naive selections against the preferences of the whole pool."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.arms.scan import RowRange, Rows

READINGS = nq.preference.READINGS


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
    clear = np.abs(p - times / 25) > 1e-6 * p.max()  # the sums are float32
    found = nq.PreferenceThreshold(times, epsilon=epsilon, reading=reading).select(pool, anchor)
    chosen = np.isin(np.arange(25), found.arms)
    assert (chosen[clear] == (p >= times / 25)[clear]).all()


def test_threshold_when_nothing_is_similar() -> None:
    pool = nq.ArmPool.from_vectors(["a", "b"], [[-1.0, 0.0], [-1.0, -1.0]])
    assert len(nq.PreferenceThreshold(1.0).select(pool, [1, 0])) == 2
    assert len(nq.PreferenceThreshold(1.1).select(pool, [1, 0])) == 0


@pytest.mark.parametrize("reading", READINGS)
def test_sample_follows_the_preferences(reading: str) -> None:
    """Chi-square test of 4,000 first draws against P: a wrong weight would fail it."""
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
    """Filtering by float32 first changes nothing: the same draws give the same arms."""
    rng = np.random.default_rng(seed)
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(25)], rng.normal(size=(25, 4)))
    anchor = rng.normal(size=4)
    p = preferences(pool, anchor, 0.5, reading)
    numbers = np.random.Philox(key=int(np.random.default_rng(5).integers(1 << 63)))
    times = -np.log(1 - np.random.Generator(numbers).random(25))
    with np.errstate(divide="ignore"):
        expected = np.lexsort((times, times / p))[:k]
    selector = nq.PreferenceSample(k, reading=reading)
    found = selector.select(pool, anchor, rng=np.random.default_rng(5))
    assert set(found.arms.tolist()) == set(expected.tolist())


@given(
    seed=st.integers(0, 200),
    reading=st.sampled_from(READINGS),
    epsilon=st.sampled_from([0.0, 0.5, 0.9]),
    k=st.integers(1, 30),
    cuts=st.sets(st.integers(0, 25), max_size=4),
    removed=st.sets(st.integers(0, 24), max_size=5),
    exclude=st.sets(st.integers(0, 24), max_size=5),
    keep=st.sets(st.integers(0, 24), max_size=3),
)
def test_parts_find_the_sample_of_the_whole(
    seed: int,
    reading: str,
    epsilon: float,
    k: int,
    cuts: set[int],
    removed: set[int],
    exclude: set[int],
    keep: set[int],
) -> None:
    """Each part returns few possible winners, and the sample does not depend on the parts."""
    rng = np.random.default_rng(seed)
    pool = InParts.from_vectors([f"q{i}" for i in range(25)], rng.normal(size=(25, 4)))
    pool.remove(removed)
    anchor = rng.normal(size=4) * (seed % 9 > 0)  # sometimes 0: nothing is similar
    selector, sets = nq.PreferenceSample(k, epsilon=epsilon, reading=reading), []
    for pool.bounds in ([0, 25], sorted({0, 25} | cuts)):
        draw = np.random.default_rng(seed)
        kept = keep - removed - exclude
        sets.append(selector.select(pool, anchor, exclude, draw, keep=kept).arms.tolist())
        assert pool.returned <= (len(pool.bounds) - 1) * (k + 2)
    assert sets[0] == sets[1]


class InParts(nq.ArmPool):
    """A pool that runs tasks part by part."""

    bounds: Any
    returned = 0

    def on_parts(self, task: Any, *args: Any) -> tuple[list[Any], int]:
        answers = []
        for first, last in pairwise(self.bounds):
            inside = self.removed[(self.removed >= first) & (self.removed < last)]
            part = RowRange(Rows(np.array(self.vectors[first:last])), first, inside - first)
            answers.append(task(part, *args))
        self.returned = sum(len(race.arms) for part in answers for race in part)
        return answers, 0
