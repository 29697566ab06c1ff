"""Off-policy estimates: exact means over a world that is small enough to write down."""

import itertools

import numpy as np
import pytest

from benchmarks.experiments import Floats, World, coverage, truth, without_first, world
from nextquery.errors import InvalidInput
from nextquery.experiments.off_policy import ESTIMATORS, Estimate, Logged, doubly_robust, ips, snips


def one_context() -> World:
    rng = np.random.default_rng(0)
    return world(rng, contexts=1, candidates=3)


def mean_over_all_slates(of: World, estimate: str, *, first: bool) -> float:
    """Return the exact mean of an estimate of one slate: over all slates and clicks."""
    total = 0.0
    for one, two in itertools.permutations(range(3), 2):
        row = np.array([one])
        behind, aimed = (without_first(policy, row)[0] for policy in (of.logging, of.target))
        drawn = of.logging[0, one] * behind[two]
        clicks = [(1, 0), (0, 1), (0, 0)]
        chances = [of.chances[0, one], (1 - of.chances[0, one]) * of.chances[0, two]]
        for click, chance in zip(clicks, [*chances, 1 - sum(chances)], strict=True):
            log = Logged.of(
                [click],
                [[of.logging[0, one], behind[two]]],
                [[of.target[0, one], aimed[two]]],
                predicted=[[of.predicted[0, one], of.predicted[0, two]]],
                expected=[[of.target[0] @ of.predicted[0], aimed @ of.predicted[0]]],
            )
            total += drawn * chance * ESTIMATORS[estimate](log.first() if first else log).mean
    return total


@pytest.mark.parametrize("estimate", ["ips", "dr"])
def test_the_estimates_are_unbiased(estimate: str) -> None:
    of = one_context()
    first, slate = truth(of)
    assert mean_over_all_slates(of, estimate, first=True) == pytest.approx(first)
    assert mean_over_all_slates(of, estimate, first=False) == pytest.approx(slate)


def test_the_policy_of_the_log_is_estimated_by_what_it_earned() -> None:
    rng = np.random.default_rng(1)
    rewards: Floats = (rng.random((500, 3)) < 0.1).astype(float)
    rewards[:, 1:] *= 1 - np.maximum.accumulate(rewards, axis=1)[:, :-1]
    same = Logged.of(rewards, np.full((500, 3), 0.3), np.full((500, 3), 0.3))
    for estimate in (ips(same), snips(same), doubly_robust(same)):
        assert estimate.mean == pytest.approx(rewards.sum() / 500)
        assert estimate.effective == pytest.approx(500)


def test_the_interval_is_that_of_a_mean_of_sessions() -> None:
    rewards = np.array([1, 0, 0, 1, 1, 0], float)
    log = Logged.of(rewards, np.ones(6), np.ones(6), sessions=[0, 0, 1, 1, 2, 2])
    sums = np.array([1, 1, 1]) - 2 * rewards.mean()
    error = np.sqrt((sums**2).sum() * 3 / 2) / 6
    assert ips(log) == pytest.approx(Estimate(0.5, 0.5 - 1.96 * error, 0.5 + 1.96 * error, 6), 1e-3)


def test_slates_of_different_length_count_with_what_they_have() -> None:
    drawn = np.array([[0.5, 0.5], [0.5, np.nan]])
    log = Logged.of(np.array([[0, 1], [1, np.nan]]), drawn, drawn)
    assert ips(log).mean == snips(log).mean == doubly_robust(log).mean == 1.0


def test_the_intervals_cover_the_truth() -> None:
    for name, (covered, *_) in coverage(runs=150, slates=1000, seed=2).items():
        assert covered >= 0.9, name


def test_few_slates_that_carry_all_the_weight_are_seen() -> None:
    log = Logged.of(np.ones(1000), [0.001, *[0.999] * 999], np.ones(1000))
    assert ips(log).effective < 5
    assert ips(Logged.of([], [], [])).effective == 0


def test_what_cannot_be_weighted_is_refused() -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        Logged.of([1.0], [0.0], [1.0])
    with pytest.raises(InvalidInput, match="a row for each slate"):
        Logged.of([1.0], [0.5, 0.5], [1.0])
