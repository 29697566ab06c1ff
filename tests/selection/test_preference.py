"""The readings of Lemma 2, against their closed forms and the paper's own numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nextquery.errors import InvalidInput
from nextquery.selection.preference import READINGS, joint, log_marginal, marginal

SIMILARITIES = st.lists(
    st.one_of(st.floats(-1, 1), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=12
).map(np.array)
EPSILONS = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))


def sums(s: NDArray[Any], epsilon: float) -> tuple[float, float, float]:
    """Σ, π and π̄ by definition."""
    total = s.sum()
    return total, s[s >= epsilon].sum() / total, s[s < epsilon].sum() / total


@pytest.mark.parametrize(
    ("epsilon", "pairs"), [(0.5, (0.297, 0.324, 0.445)), (0.6, (0.349, 0.380, 0.523))]
)
def test_the_worked_example_of_the_paper(epsilon: float, pairs: tuple[float, ...]) -> None:
    matrix = joint([0.4, 0.55, 0.6], epsilon)
    assert (matrix[0, 1], matrix[0, 2], matrix[1, 2]) == pytest.approx(pairs, abs=1e-3)
    assert marginal([0.4, 0.55, 0.6], 0.5).sum() == pytest.approx(1.62, abs=5e-3)


@given(SIMILARITIES, EPSILONS)
def test_closed_forms(raw: NDArray[Any], epsilon: float) -> None:
    s = np.maximum(raw, 0)
    if s.sum() < 1e-300:
        return
    total, pi, bar = sums(s, epsilon)
    both = pi**2 + bar**2
    outer = np.outer(s / total, s / total)
    assert np.allclose(joint(raw, epsilon), 2 * outer / both, rtol=1e-9, atol=1e-300)
    assert np.allclose(marginal(raw, epsilon), s / (total * both), rtol=1e-9, atol=1e-300)
    w = np.where(s >= epsilon, pi, bar)
    expected = w * s / (total * both)
    assert np.allclose(marginal(raw, epsilon, "defined"), expected, rtol=1e-9, atol=1e-12)


@given(SIMILARITIES, EPSILONS)
def test_defined_is_a_distribution(raw: NDArray[Any], epsilon: float) -> None:
    p, pairs = marginal(raw, epsilon, "defined"), joint(raw, epsilon, "defined")
    assert abs(p.sum() - 1) < 1e-12
    assert abs(pairs.sum() - 1) < 1e-12
    assert np.allclose(pairs.sum(axis=1), p, atol=1e-12)  # the Lemma, k = j included
    assert (p >= 0).all()


@given(SIMILARITIES, EPSILONS, st.sampled_from(READINGS))
def test_logarithms_agree(raw: NDArray[Any], epsilon: float, reading: str) -> None:
    p, logs = marginal(raw, epsilon, reading), log_marginal(raw, epsilon, reading)
    positive = p > 1e-280
    assert np.allclose(logs[positive], np.log(p[positive]), rtol=1e-12, atol=1e-9)
    assert (logs[p == 0] < -600).all()


@given(SIMILARITIES, EPSILONS)
def test_example_orders_by_similarity_whatever_epsilon(raw: NDArray[Any], epsilon: float) -> None:
    s, p = np.maximum(raw, 0), marginal(raw, epsilon)
    if s.any():
        assert np.allclose(p / p.max(), s / s.max(), rtol=1e-12)


def test_below_one_half_the_arms_just_below_epsilon_outrank_those_above() -> None:
    s = np.array([0.55, 0.45, 0.44, 0.43, 0.42])
    assert sums(s, 0.5)[1] < 0.5
    defined = marginal(s, 0.5, "defined")
    assert np.argmax(defined) == 1
    _, pi, bar = sums(s, 0.5)
    assert defined[0] < defined[1]
    assert 0.5 * bar / pi > 0.55  # until s_j > ε·π̄/π
    assert np.argmax(marginal(s, 0.4, "defined")) == 0  # π = 1: as by similarity


@given(SIMILARITIES, st.floats(0.01, 1))
def test_joint_is_defined_renormalised_over_the_similar(raw: NDArray[Any], epsilon: float) -> None:
    s, similar = np.maximum(raw, 0), np.maximum(raw, 0) >= epsilon
    if not similar.any():
        assert not marginal(raw, epsilon, "joint").any()
        return
    defined = np.where(similar, marginal(raw, epsilon, "defined"), 0)
    expected = (
        defined / defined.sum() if defined.sum() > 1e-200 else s * similar / (s * similar).sum()
    )
    assert np.allclose(marginal(raw, epsilon, "joint"), expected, rtol=1e-9)


@pytest.mark.parametrize("reading", ["example", "defined"])
def test_nothing_similar_means_no_preference(reading: str) -> None:
    assert marginal([0, -1, 0, -0.5], 0.5, reading).tolist() == [0.25] * 4
    assert joint([0, -1], 0.5, reading).tolist() == [[0.25, 0.25]] * 2
    assert np.allclose(log_marginal([0, 0], 0.5, reading), np.log(0.5))


def test_tiny_similarities_do_not_vanish() -> None:
    assert joint([1e-200, 1e-200], 0.5, "defined").sum() == pytest.approx(1)
    assert marginal([5e-324, 5e-324], 0.5).tolist() == [0.5, 0.5]


def test_one_arm_and_none() -> None:
    assert marginal([0.7], 0.5).tolist() == [1]
    assert marginal([], 0.5).size == 0
    assert joint([], 0.5).shape == (0, 0)


@pytest.mark.parametrize(
    ("similarities", "epsilon", "reading", "message"),
    [
        ([0.1, np.nan], 0.5, "example", "entry 1 is nan"),
        ([0.1, np.inf], 0.5, "example", "entry 1 is inf"),
        ([[0.1]], 0.5, "example", "one row of numbers"),
        ([0.1], 1.5, "example", "epsilon must be a number of at least 0 and at most 1"),
        ([0.1], 0.5, "literal", "one of example, defined"),
    ],
)
def test_bad_input_is_named(similarities: Any, epsilon: Any, reading: str, message: str) -> None:
    for function in (marginal, joint, log_marginal):
        with pytest.raises(InvalidInput, match=message):
            function(similarities, epsilon, reading)
