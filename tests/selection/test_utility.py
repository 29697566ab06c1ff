"""Set functions against their definitions, computed from scratch."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.selection import utility
from nextquery.selection.utility import FacilityLocation, LogDet, LogProbability, Utility
from nextquery.vectors import unit_rows

SUBMODULAR = [FacilityLocation, LogDet]


def world(seed: int, n: int, d: int = 3) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, d))
    vectors[n // 2] = vectors[0]
    preferences = rng.random(n)
    return preferences / preferences.sum(), vectors


def from_scratch(u: Utility, vectors: NDArray[Any], arms: list[int]) -> float:
    """The definitions, without increments."""
    rows = unit_rows(vectors).astype(float)
    p = u.preferences
    if isinstance(u, LogProbability):
        return float(np.log(p[arms]).sum())
    if not arms:
        return 0.0
    if isinstance(u, FacilityLocation):
        return float(p @ np.maximum(rows @ rows[arms].T, 0).max(axis=1))
    assert isinstance(u, LogDet)
    q = p[arms] / p.max()
    kernel = rows[arms] @ rows[arms].T
    return float(np.linalg.slogdet(np.eye(len(arms)) + u.strength * np.outer(q, q) * kernel)[1])


@given(st.sampled_from(utility.__all__), st.integers(0, 500), st.data())
def test_values_and_gains_are_the_definitions(name: str, seed: int, data: st.DataObject) -> None:
    kind = getattr(utility, name)
    if kind is Utility:
        return
    n = data.draw(st.integers(1, 8))
    preferences, vectors = world(seed, n)
    u = kind.of(preferences, vectors)
    # Facility location rounds its rows, each entry by 2⁻²⁷ at most.
    near = 2 * 2**-27 * 3**0.5 if kind is FacilityLocation else 1e-9
    for _ in range(4):  # jumping between sets must not confuse the incremental state
        arms = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, n))]
        assert u.value(arms) == pytest.approx(from_scratch(u, vectors, arms), abs=near)
        for arm in range(n):
            gain = 0.0
            if arm not in arms:
                grown = from_scratch(u, vectors, [*arms, arm])
                gain = grown - from_scratch(u, vectors, arms)
            assert u.gain(arms, arm) == pytest.approx(gain, abs=2 * near)


@given(st.sampled_from(SUBMODULAR), st.integers(0, 500), st.floats(0.1, 10))
def test_monotone_and_submodular(kind: type[Utility], seed: int, strength: float) -> None:
    n = 6
    preferences, vectors = world(seed, n)
    u = kind.of(preferences, vectors)
    if kind is LogDet:
        u = LogDet(preferences, vectors, strength=strength)
    for size in range(n):
        for small in combinations(range(n), size):
            for arm in set(range(n)) - set(small):
                gain = u.gain(small, arm)
                assert gain >= 0
                for other in set(range(n)) - {*small, arm}:
                    assert u.gain([*small, other], arm) <= gain + 1e-9


def test_the_order_of_a_set_does_not_change_its_value() -> None:
    preferences, _ = world(3, 8)
    u = LogProbability(preferences)
    assert u.value([0, 5, 3, 7]) == u.value([7, 3, 5, 0])


def test_calls_count_gains_only() -> None:
    u = LogProbability([0.5, 0.5])
    u.value([0, 1])
    u.gain([0], 1)
    u.gains([], [0, 1])
    assert u.calls == 3


def test_gains_are_incremental(monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing a set by one arm costs one step, not a recomputation."""
    u = LogDet(*world(0, 8))
    steps, grow = list[int](), u._grow

    def counting(arm: int) -> None:
        steps.append(arm)
        grow(arm)

    monkeypatch.setattr(u, "_grow", counting)
    chosen: list[int] = []
    for arm in range(8):
        u.gains(chosen, range(8))
        chosen.append(arm)
    assert steps == list(range(7))


@given(st.sampled_from(SUBMODULAR), st.integers(0, 500), st.data())
def test_bounds_are_never_below_the_gains(
    kind: type[Utility], seed: int, data: st.DataObject
) -> None:
    """However the set grows or changes, and whatever was computed before."""
    n = data.draw(st.integers(1, 12))
    u = kind.of(*world(seed, n))
    order = data.draw(st.permutations(range(n)))
    for size in sorted(data.draw(st.lists(st.integers(0, n), min_size=1, max_size=5))):
        if data.draw(st.booleans()):
            u.gains(order[:size], data.draw(st.permutations(range(n))))
        bounds = u.bounds(order[:size], range(n))
        assert (bounds >= u.gains(order[:size], range(n))).all()


def test_bounds_of_facility_location_follow_the_gains() -> None:
    """Loose bounds would still be correct, but would save no calls."""
    preferences, vectors = world(5, 60)
    u = FacilityLocation(preferences, vectors)
    u.gains([], range(60))
    calls, chosen = u.calls, list(range(20))
    outside = range(20, 60)
    bounds = u.bounds(chosen, outside)
    assert u.calls == calls
    assert bounds == pytest.approx(u.gains(chosen, outside), abs=1e-12)
    assert np.isinf(FacilityLocation(preferences, vectors).bounds(chosen, outside)).all()


@pytest.mark.parametrize("kind", SUBMODULAR)
def test_equal_arms_have_equal_gains(kind: type[Utility]) -> None:
    """To the last bit, whatever was computed before: ties go to the smaller arm."""
    rng = np.random.default_rng(1)
    vectors = np.eye(8)[rng.integers(8, size=40)]  # products of these are exact
    u = kind.of(np.full(40, 0.3), vectors)
    twins = [(i, j) for i, j in combinations(range(40), 2) if (vectors[i] == vectors[j]).all()]
    chosen: list[int] = []
    for arm in rng.permutation(40).tolist():
        i, j = twins[rng.integers(len(twins))]
        u.gain(chosen, i)
        if not {i, j} & set(chosen):
            assert u.gain(chosen, i) == u.gain(chosen, j)
        chosen.append(arm)


@given(st.integers(0, 500), st.data())
def test_a_part_of_the_arms_gains_what_it_does_among_all(seed: int, data: st.DataObject) -> None:
    """To the last bit, so that greedy on a part chooses the same wherever it runs."""
    n = data.draw(st.integers(1, 40))
    preferences, vectors = world(seed, n, data.draw(st.sampled_from([2, 7, 128])))
    part = sorted(data.draw(st.permutations(range(n)))[: data.draw(st.integers(1, n))])
    facilities = FacilityLocation(preferences, vectors, candidates=part)
    directions = LogDet(preferences[part], vectors[part], peak=preferences.max())
    for partial, whole in (
        (facilities, FacilityLocation(preferences, vectors)),
        (directions, LogDet(preferences, vectors)),
    ):
        for size in range(len(part)):
            chosen, arms = list(range(size)), list(range(len(part)))
            gains = whole.gains(part[:size], part)
            assert partial.gains(chosen, arms).tolist() == gains.tolist()
            assert partial.value(chosen) == whole.value(part[:size])


def test_arms_of_no_preference() -> None:
    assert LogProbability([0.0, 1.0]).value([0]) == -math.inf
    assert FacilityLocation([0.0, 0.0], np.eye(2)).value([0, 1]) == 0
    assert LogDet([0.0, 0.0], np.eye(2)).value([0, 1]) == pytest.approx(2 * math.log(2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LogProbability([0.1, -0.1]), "of at least 0"),
        (lambda: LogProbability([np.nan]), "finite"),
        (lambda: FacilityLocation([0.1], np.eye(2)), "received 1 and 2"),
        (lambda: LogDet([0.1, 0.1], np.eye(2), strength=0), "strength must be a number above 0"),
        (lambda: LogDet([0.1, 0.3], np.eye(2), peak=0.2), "peak must be a number of at least 0.3"),
        (lambda: FacilityLocation([1], [[1]], candidates=[1]), "arms must be 0 to 0"),
        (lambda: LogProbability([0.1]).gain([], 1), "arms must be 0 to 0"),
        (lambda: LogProbability([0.1, 0.2]).value([1, 1]), "arm 1 is in the set twice"),
    ],
)
def test_bad_input_is_named(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
