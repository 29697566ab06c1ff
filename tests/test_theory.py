"""What the paper says of its utility, against brute force on small sets of arms."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import nextquery as nq
from nextquery.selection.preference import joint, marginal

FEW = st.lists(st.floats(0.01, 1).map(lambda s: round(s, 3)), min_size=2, max_size=7).map(np.array)
EPSILONS = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9])


def probability(s: NDArray[Any], epsilon: float, chosen: tuple[int, ...]) -> float:
    """Eq. 1 extended from pairs to sets of any size: all arms lie on one side of ε."""
    pi, own, n = s[s >= epsilon].sum() / s.sum(), s[list(chosen)], len(chosen)
    above = np.prod(own / s[s >= epsilon].sum()) if (own >= epsilon).all() else 0.0
    below = np.prod(own / s[s < epsilon].sum()) if (own < epsilon).all() else 0.0
    return float((pi**n * above + (1 - pi) ** n * below) / (pi**n + (1 - pi) ** n))


def pool_of(s: NDArray[Any]) -> nq.ArmPool:
    """Return arms with these similarities to the anchor (1, 0)."""
    return nq.ArmPool.from_vectors(list(map(str, range(len(s)))), np.c_[s, np.sqrt(1 - s**2)])


@given(FEW, EPSILONS)
def test_an_arm_raises_log_g_only_with_more_than_half_of_all_similarity(
    s: NDArray[Any], epsilon: float
) -> None:
    pi = s[s >= epsilon].sum() / s.sum()
    share, same_side = s / s.sum(), pi**2 + (1 - pi) ** 2
    p = marginal(s, epsilon)
    decided = abs(share - same_side) > 1e-9
    assert ((p > 1) == (share > same_side))[decided].all()
    assert np.count_nonzero(p > 1 + 1e-9) <= 1
    assert (share[p > 1 + 1e-9] > 0.5).all()
    for reading in ("defined", "joint", "one-side"):
        assert (marginal(s, epsilon, reading) <= 1 + 1e-12).all()


def test_the_smallest_pool_where_an_arm_raises_log_g() -> None:
    p = marginal([0.6, 0.4], 0.5)
    assert p.round(3).tolist() == [1.154, 0.769]
    g = nq.utility.LogProbability(p)
    sets = [chosen for size in range(3) for chosen in combinations(range(2), size)]
    assert max(sets, key=g.value) == (0,)  # not the empty set, and not all that |C| ≤ 2 allows
    safe = nq.utility.LogProbability(marginal([0.6, 0.4], 0.5, "defined"))
    assert max(sets, key=safe.value) == ()


@given(FEW, EPSILONS)
def test_definition_1_fails_under_eq_1(s: NDArray[Any], epsilon: float) -> None:
    """Sub-additivity of log g for a pair is P(j, k) ≤ P(j) P(k). Eq. 1 has the opposite."""
    similar = s >= epsilon
    pi = s[similar].sum() / s.sum()
    same_side = pi**2 + (1 - pi) ** 2
    for j, k in combinations(range(len(s)), 2):
        products = {
            reading: marginal(s, epsilon, reading)[j] * marginal(s, epsilon, reading)[k]
            for reading in ("example", "defined")
        }
        ratio = joint(s, epsilon)[j, k] / products["example"]
        assert ratio == pytest.approx(2 * same_side)  # at least 1, and 1 only if π = ½
        assert ratio >= 1 - 1e-12
        pair = joint(s, epsilon, "defined")[j, k]
        assert pair == pytest.approx(probability(s, epsilon, (j, k)))
        if similar[j] == similar[k]:
            own = pi if similar[j] else 1 - pi
            assert pair / products["defined"] == pytest.approx(same_side / own**2)
            assert pair >= products["defined"] * (1 - 1e-12)
        else:
            assert pair == 0  # the only pairs that are sub-additive: they are never drawn


def test_the_worked_example_is_not_sub_additive() -> None:
    s = [0.4, 0.55, 0.6]
    pairs, p = joint(s, 0.5), marginal(s, 0.5)
    assert (round(pairs[0, 1], 3), round(p[0] * p[1], 3)) == (0.297, 0.24)
    assert all(pairs[j, k] > p[j] * p[k] for j, k in combinations(range(3), 2))


@given(FEW, EPSILONS)
def test_independent_arms_are_exactly_additive(s: NDArray[Any], epsilon: float) -> None:
    g = nq.utility.LogProbability(marginal(s, epsilon))
    for j, k in combinations(range(len(s)), 2):
        assert g.value([j, k]) == pytest.approx(g.value([j]) + g.value([k]), abs=1e-12)


@given(FEW, EPSILONS, st.integers(1, 7))
def test_one_side_is_the_most_probable_set_of_eq_1(s: NDArray[Any], epsilon: float, k: int) -> None:
    found = nq.MaxUtility(k, epsilon, reading="one-side").select(pool_of(s), [1.0, 0.0])
    values = np.array(found.similarities)  # as stored, in float32
    s = np.array(nq.MaxUtility(len(s)).select(pool_of(s), [1.0, 0.0]).similarities)
    size = len(found)
    assert size > 0
    best = max(probability(s, epsilon, chosen) for chosen in combinations(range(len(s)), size))
    own = tuple(int(np.flatnonzero(s == value)[0]) for value in values)
    assert probability(s, epsilon, own) == pytest.approx(best)
    assert best > 0
    larger = combinations(range(len(s)), min(k, len(s)))
    if size < min(k, len(s)):  # no set of the wanted size has a probability
        assert all(probability(s, epsilon, chosen) == 0 for chosen in larger)


@pytest.mark.parametrize(
    ("k", "one_side", "joint_reading"),
    [(2, [0, 1], [0, 1]), (3, [2, 3, 4], [0, 1]), (4, [2, 3, 4], [0, 1])],
)
def test_the_two_choices_of_a_side(k: int, one_side: list[int], joint_reading: list[int]) -> None:
    pool = pool_of(np.array([0.9, 0.8, 0.4, 0.3, 0.2]))
    for reading, expected in (("one-side", one_side), ("joint", joint_reading)):
        found = nq.MaxUtility(k, 0.5, reading=reading).select(pool, [1.0, 0.0])
        assert found.arms.tolist() == expected
        assert found.preferences[0] == pytest.approx(
            found.similarities[0] / ({0: 1.7, 2: 0.9}[expected[0]])
        )


def test_a_growing_set_stays_on_its_side() -> None:
    pool, anchor = pool_of(np.array([0.9, 0.8, 0.7, 0.4, 0.3])), [1.0, 0.0]
    selector = nq.MaxUtility(4, 0.5, reading="one-side")
    assert selector.select(pool, anchor, keep=[0]).arms.tolist() == [0, 1, 2]
    assert selector.select(pool, anchor, keep=[4]).arms.tolist() == [3, 4]
    mixed = selector.select(pool, anchor, keep=[0, 4], k=3)  # an anchor that moved: both sides
    assert sorted(mixed.arms.tolist()) == [0, 1, 4]


def test_a_shortlist_lies_on_the_side_of_the_set() -> None:
    pool = pool_of(np.array([0.9, 0.8, 0.7, 0.4, 0.3, 0.2, 0.1]))
    for utility in ("facility-location", "log-det"):
        how: dict[str, Any] = {"utility": utility, "reading": "one-side", "shortlist": 4}
        assert set(nq.MaxUtility(2, 0.5, **how).select(pool, [1.0, 0.0]).arms) <= {0, 1, 2}
        assert set(nq.MaxUtility(4, 0.5, **how).select(pool, [1.0, 0.0]).arms) == {3, 4, 5, 6}


@given(FEW, EPSILONS)
def test_extended_as_in_the_example_eq_1_is_submodular_and_its_best_sets_stay_the_same(
    s: NDArray[Any], epsilon: float
) -> None:
    """With the example's quotients, log g(C) = Σ log(s_j/Σ) + log 2 − log(π^n + π̄^n), n = |C|."""
    pi = s[s >= epsilon].sum() / s.sum()

    def log_g(chosen: tuple[int, ...]) -> float:
        n = len(chosen)
        return float(
            np.log(s[list(chosen)] / s.sum()).sum() + math.log(2) - math.log(pi**n + (1 - pi) ** n)
        )

    gains = [log_g(tuple(range(n + 1))) - log_g(tuple(range(n))) for n in range(len(s))]
    over_its_own_part = np.array(gains) - np.log(s / s.sum())
    assert (np.diff(over_its_own_part) <= 1e-9).all()  # the rest of a gain falls with |C|
    for size in range(1, len(s)):
        best = max(combinations(range(len(s)), size), key=log_g)
        assert sorted(s[list(best)]) == pytest.approx(sorted(s)[-size:])
