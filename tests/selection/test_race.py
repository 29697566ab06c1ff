"""The race: a part of a pool must not drop an arm that may win."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nextquery.selection.baselines import Race, not_behind


@given(st.integers(0, 2000), st.integers(1, 12))
def test_who_may_be_early_is_not_left_out(seed: int, size: int) -> None:
    """For any arrivals within the bounds, with many ties and arms that never arrive."""
    rng = np.random.default_rng(seed)
    times = rng.permutation(12).astype(np.float64)
    low, arrivals, high = np.sort(rng.choice([1.0, 2, 3, 4, np.inf], size=(3, 12)), axis=0)
    may = not_behind(low, high, times, size)
    assert may[np.lexsort((times, arrivals))[:size]].all()


@given(st.integers(0, 40), st.integers(0, 40))
def test_times_follow_from_the_id_alone(first: int, arms: int) -> None:
    race = Race(np.ones(2, np.float32), 7, np.empty(0, np.int64), 1, 0.5, 1.0, 1.0, uniform=False)
    whole = race.times(0, 80)
    assert race.times(first, arms).tolist() == whole[first : first + arms].tolist()


def test_times_are_exponential() -> None:
    """Mean 1, and a share of 1/e beyond 1, each within four standard errors for 20,000 draws."""
    race = Race(np.ones(2, np.float32), 3, np.empty(0, np.int64), 1, 0.5, 1.0, 1.0, uniform=False)
    times = race.times(0, 20_000)
    assert times.min() >= 0
    assert abs(times.mean() - 1) < 4 / 20_000**0.5
    assert abs((times > 1).mean() - np.exp(-1)) < 4 * (np.exp(-1) / 20_000) ** 0.5
