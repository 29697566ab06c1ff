"""Zooming, OSLB and CKL-UCB: the metric, the programme and traces by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.research.many_armed.structured import (
    CKLUCB,
    OSLB,
    AdaptiveZooming,
    distances,
    divergence,
    needed_plays,
    threshold,
)
from tests.research.many_armed.worlds import ANCHOR, half_circle, play, replies

LINE = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) / 6


@settings(max_examples=50)
@given(st.integers(0, 10_000))
def test_the_angle_is_a_metric(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(3, 4))
    d = distances(rows, rows)
    assert np.allclose(np.diag(d), 0.0, atol=1e-7)
    assert np.allclose(d, d.T)
    assert d[0, 2] <= d[0, 1] + d[1, 2] + 1e-12
    cosine = rows[0] @ rows[1] / np.linalg.norm(rows[0]) / np.linalg.norm(rows[1])
    assert d[0, 1] == pytest.approx(math.acos(cosine) / math.pi, abs=1e-9)


def test_arms_on_a_half_circle_are_as_far_as_on_a_line() -> None:
    rows = half_circle(6).vectors
    assert np.allclose(distances(rows, rows), LINE, atol=1e-6)


class TestZooming:
    def test_an_arm_is_activated_where_no_ball_reaches(self) -> None:
        """Two arms at a distance of ½, T = 2: r = √(2 ln 2 / (s + 1)) < ½ from s = 5 on."""
        policy = AdaptiveZooming(2)
        arms = replies(policy, half_circle(2), [1.0] * 7)
        assert arms[:5] == [arms[0]] * 5
        assert arms[5] == 1 - arms[0]
        assert len(policy._active) == 2

    def test_the_constant_is_above_0(self) -> None:
        for policy in (AdaptiveZooming, CKLUCB, OSLB):
            with pytest.raises(InvalidInput, match=r"lipschitz must be .* received 0"):
                policy(lipschitz=0)

    def test_phases_begin_anew(self) -> None:
        policy = AdaptiveZooming()
        states = []
        for _ in range(7):
            states.append((policy.phase, policy._seen.updates))
            replies(policy, half_circle(4), [1.0])
        assert states == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3), (3, 0)]

    def test_it_activates_few_arms_and_plays_near_the_best(self) -> None:
        """The distance to the best of 100 arms is far less than that of a random arm, 0.25."""
        means = [0.9 - 0.8 * abs(i / 100 - 0.5) for i in range(100)]
        policy = AdaptiveZooming(20)
        arms = np.array(play(policy, half_circle(100), means, 1200))
        assert np.mean(np.abs(arms[-600:] / 100 - 0.5)) < 0.17
        assert len(policy._active) < 30


class TestOslb:
    def test_without_structure_the_programme_is_that_of_lai_and_robbins(self) -> None:
        means = np.array([0.8, 0.6, 0.21, 0.22, 0.23, 0.24])
        far = np.where(np.eye(6) > 0, 0.0, 1.0)
        c = needed_plays(means, far, 10.0)
        best = np.full(5, 0.8)
        assert c[0] == np.inf
        assert c[1:] == pytest.approx(1 / divergence(means[1:], best))

    def test_near_arms_share_what_they_learn(self) -> None:
        means = np.array([0.8, 0.6, 0.21, 0.22, 0.23, 0.24])
        cost = [
            float((0.8 - means[1:]) @ needed_plays(means, LINE, L)[1:]) for L in (0.5, 2.5, 10.0)
        ]
        assert cost[0] < cost[1] < cost[2]

    def test_the_plays_satisfy_the_programme(self) -> None:
        means, L = np.array([0.5, 0.4, 0.4, 0.4, 0.51, 0.4]), 0.7
        c = needed_plays(means, LINE, L)
        below = np.flatnonzero(means < means.max())
        for k in below:
            assumed = np.maximum(means[below], means.max() - L * LINE[k, below])
            assert c[below] @ divergence(means[below], assumed) >= 1 - 1e-6

    def test_every_arm_first_then_the_one_that_lacks_most(self) -> None:
        arms = replies(OSLB(), half_circle(4), [1, 0, 0, 0])
        assert sorted(arms) == [0, 1, 2, 3]
        policy = OSLB(lipschitz=10.0)
        plays, means = np.array([500.0, 40.0, 10.0]), np.array([0.9, 0.5, 0.4])
        apart = np.where(np.eye(3) > 0, 0.0, 1.0)
        ln = math.log(550)
        lack = np.minimum(1 / divergence(means[1:], np.full(2, 0.9)), ln) * ln - plays[1:]
        eligible = policy._eligible(plays, means, 550, apart)
        assert (lack > 0).any() == (not eligible[0])
        exploit = policy._eligible(np.array([5000.0, 400.0, 400.0]), means, 5800, apart)
        assert exploit.tolist() == [True, False, False]

    def test_equal_means_are_all_best(self) -> None:
        assert np.isinf(needed_plays(np.full(3, 0.5), LINE[:3, :3], 1.0)).all()


class TestCklUcb:
    def test_the_index_of_one_arm_is_that_of_kl_ucb(self) -> None:
        """The largest q with s KL(x̄, q) ≤ f: here 10 · KL(0.5, q) = 1 at q = 0.7129."""
        policy = CKLUCB()
        q = policy._index(np.array([10.0]), np.array([0.5]), 0, np.zeros((1, 1)), 1.0)
        assert 10 * float(divergence(np.array([0.5]), np.array([q]))[0]) == pytest.approx(
            1.0, abs=0.01
        )

    def test_the_plays_of_a_near_arm_count(self) -> None:
        policy, plays, means = CKLUCB(), np.array([9.0, 1.0]), np.array([0.1, 0.0])
        near, far = np.zeros((2, 2)), 1.0 - np.eye(2)
        assert policy._evidence(plays, means, 0.9, near)[1] > 5
        assert policy._evidence(plays, means, 0.9, far)[1] < 5

    def test_an_arm_that_was_hardly_played_comes_first(self) -> None:
        arms = replies(CKLUCB(), half_circle(4), [1, 1, 0, 0])
        assert sorted(arms) == [0, 1, 2, 3]
        assert threshold(2, 5) == 0.0
        assert threshold(100, 5) == pytest.approx(math.log(100) + 16 * math.log(math.log(100)))

    def test_nothing_is_chosen_without_candidates(self) -> None:
        nothing = half_circle(3).take(np.zeros(3, np.bool_))
        assert CKLUCB().choose(nothing, ANCHOR) is None
