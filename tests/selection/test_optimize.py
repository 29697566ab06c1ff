"""The three optimisers against each other, top-k, and brute force."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.selection.optimize import greedi, greedy, lazy_greedy
from nextquery.selection.utility import FacilityLocation, LogDet, LogProbability, Utility

PREFERENCES = st.lists(
    st.sampled_from([0.0, 0.001, 0.1, 0.2, 0.2, 0.3, 0.5]), min_size=1, max_size=14
)


def submodular(kind: type[Utility], seed: int, n: int) -> Utility:
    rng = np.random.default_rng(seed)
    preferences = rng.random(n) ** 3
    return kind.of(preferences, rng.normal(size=(n, 3)))


@given(PREFERENCES, st.integers(0, 16), st.integers(0, 100), st.data())
def test_all_roads_lead_to_the_top_k(
    preferences: list[float], k: int, seed: int, data: st.DataObject
) -> None:
    """Under log-probability: greedy = lazy = GreeDi with any partition = one top-k pass."""
    n = len(preferences)
    top = np.lexsort((np.arange(n), -np.array(preferences)))[:k].tolist()
    u = LogProbability(preferences)
    assert greedy(u, range(n), k) == top
    assert lazy_greedy(u, range(n), k) == top
    for m in range(1, n + 1):
        assert greedi(u, range(n), k, partitions=m, seed=seed) == top
    label = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    parts = [[a for a in range(n) if label[a] == p] for p in range(5)]  # some empty, some < k
    assert greedi(u, range(n), k, partitions=parts) == top


@given(st.sampled_from([FacilityLocation, LogDet]), st.integers(0, 300), st.integers(1, 8))
def test_lazy_is_greedy_with_fewer_calls(kind: type[Utility], seed: int, k: int) -> None:
    eager, lazy = submodular(kind, seed, 40), submodular(kind, seed, 40)
    assert eager.value(greedy(eager, range(40), k)) == pytest.approx(
        lazy.value(lazy_greedy(lazy, range(40), k))
    )
    assert lazy.calls <= eager.calls
    if k > 2:
        assert lazy.calls < eager.calls


@given(
    st.sampled_from([FacilityLocation, LogDet, LogProbability]),
    st.integers(0, 300),
    st.integers(1, 30),
    st.data(),
)
def test_lazy_chooses_what_greedy_chooses(
    kind: type[Utility], seed: int, k: int, data: st.DataObject
) -> None:
    """Arm by arm, with ties and from any start. The vectors have exact gains."""
    n = data.draw(st.integers(1, 30))
    rng = np.random.default_rng(seed)
    preferences, vectors = rng.integers(0, 3, n) / 4, np.eye(5)[rng.integers(5, size=n)]
    ground = data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))]
    start = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, n))]
    eager, lazy = kind.of(preferences, vectors), kind.of(preferences, vectors)
    expected = greedy(eager, ground, k, start=start)
    assert lazy_greedy(lazy, ground, k, start=start) == expected
    assert lazy.calls <= eager.calls


def test_a_utility_that_follows_its_gains_is_asked_once_per_arm() -> None:
    u = submodular(FacilityLocation, 1, 200)
    lazy_greedy(u, range(200), 20)
    assert u.calls == 200 + 19


@given(
    st.sampled_from([FacilityLocation, LogDet]),
    st.integers(0, 500),
    st.integers(1, 4),
    st.integers(1, 9),
)
def test_bounds_hold_against_brute_force(kind: type[Utility], seed: int, k: int, m: int) -> None:
    n = 9
    u = submodular(kind, seed, n)
    best = max(u.value(arms) for arms in combinations(range(n), k))
    reach = 1 - 1 / math.e
    assert u.value(greedy(u, range(n), k)) >= reach * best - 1e-12
    assert u.value(lazy_greedy(u, range(n), k)) >= reach * best - 1e-12
    distributed = u.value(greedi(u, range(n), k, partitions=m, seed=seed))
    assert distributed >= reach / min(k, m) * best - 1e-12


@pytest.mark.parametrize("kind", [FacilityLocation, LogDet])
def test_random_partitions_reach_half_the_bound_on_average(kind: type[Utility]) -> None:
    u = submodular(kind, 7, 9)
    best = max(u.value(arms) for arms in combinations(range(9), 3))
    values = [u.value(greedi(u, range(9), 3, partitions=3, seed=s)) for s in range(50)]
    assert np.mean(values) >= (1 - 1 / math.e) / 2 * best


@given(st.sampled_from([greedy, lazy_greedy]), PREFERENCES, st.integers(1, 6))
def test_growing_a_set_keeps_it(optimiser: Any, preferences: list[float], k: int) -> None:
    n = len(preferences)
    u = LogProbability(preferences)
    first = optimiser(u, range(n), min(k, n))
    grown = optimiser(u, range(n), n, start=first)
    assert grown[: len(first)] == first
    assert grown == optimiser(u, range(n), n)


def test_a_utility_of_ones_own_needs_two_methods() -> None:
    class Distinct:
        """The number of different colours in a set."""

        def value(self, arms: list[int]) -> float:
            return len({"rrgb"[arm] for arm in arms})

        def gain(self, arms: list[int], arm: int) -> float:
            return self.value([*arms, arm]) - self.value(arms)

    for optimiser in (greedy, lazy_greedy, greedi):
        assert optimiser(Distinct(), range(4), 3) == [0, 2, 3]


def test_sets_that_start_beyond_k_are_left_alone() -> None:
    u = LogProbability([0.2, 0.3, 0.5])
    assert lazy_greedy(u, range(3), 1, start=[0, 1]) == [0, 1]
    assert u.calls == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda u: greedy(u, [0, 0], 1), "contains an arm twice"),
        (lambda u: lazy_greedy(u, range(3), -1), "k must be a whole number of at least 0"),
        (lambda u: greedi(u, range(3), 1, partitions=0), "partitions must be a whole number"),
        (lambda u: greedi(u, range(3), 1, partitions=[[0], [1]]), "every arm of ground_set"),
        (lambda u: greedi(u, range(3), 1, partitions=[[0, 1], [1, 2]]), "exactly once"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call(LogProbability([0.2, 0.3, 0.5]))
