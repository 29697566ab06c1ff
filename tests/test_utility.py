"""Set functions against their definitions, from scratch."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nextquery import utility
from nextquery.errors import InvalidInput
from nextquery.utility import FacilityLocation, LogDet, LogProbability, Utility
from nextquery.vectors import unit_rows

SUBMODULAR = [FacilityLocation, LogDet]


def world(seed: int, n: int, d: int = 3) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, d))
    vectors[n // 2] = vectors[0]
    preferences = rng.random(n)
    return preferences / preferences.sum(), vectors


def from_scratch(u: Utility, vectors: NDArray[Any], arms: list[int]) -> float:
    """The definitions, computed anew."""
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
    for _ in range(4):  # jumping between sets must not confuse the incremental state
        arms = data.draw(st.permutations(range(n)))[: data.draw(st.integers(0, n))]
        assert u.value(arms) == pytest.approx(from_scratch(u, vectors, arms), abs=1e-9)
        for arm in range(n):
            gain = 0.0
            if arm not in arms:
                grown = from_scratch(u, vectors, [*arms, arm])
                gain = grown - from_scratch(u, vectors, arms)
            assert u.gain(arms, arm) == pytest.approx(gain, abs=1e-9)


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
        (lambda: LogProbability([0.1]).gain([], 1), "arms must be 0 to 0"),
        (lambda: LogProbability([0.1, 0.2]).value([1, 1]), "arm 1 stands twice"),
    ],
)
def test_bad_input_is_named(make: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
