"""Failure-based policies: traces by hand, and the failures that their authors prove."""

import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput
from nextquery.research.many_armed.failures import (
    KFailure,
    MLearning,
    MRun,
    NonRecallingMRun,
    Trials,
    TwoTarget,
)
from nextquery.research.many_armed.index import Draws
from nextquery.research.many_armed.simulate import policy_game, trial_game
from tests.research.many_armed.worlds import ANCHOR, half_circle, replies

TRACES: list[tuple[Trials, list[float], list[int]]] = [  # rewards, and the number of each trial
    (KFailure(2), [1, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 2]),
    (MRun(9), [1, 1, 0, 0, 1, 0, 1, 0], [0, 0, 0, 1, 2, 2, 0, 0]),
    (NonRecallingMRun(9), [1, 0, 0, 1, 1, 1, 0, 0], [0, 0, 1, 2, 2, 2, 2, 2]),
    (MLearning(4), [1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]),
    (TwoTarget(4, 2), [0, 1, 0, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1, 1]),
]


@pytest.mark.parametrize(("policy", "rewards", "trials"), TRACES)
def test_a_trace_by_hand(policy: Trials, rewards: list[float], trials: list[int]) -> None:
    if isinstance(policy, MLearning):  # m = ⌈√4 ln 4⌉ = 3: after three rounds the first arm is best
        assert policy.targets.tolist() == [3]
    if isinstance(policy, TwoTarget):  # l1 = ⌊2^⅓⌋, l2 = ⌊2 √2⌋
        assert policy.targets.tolist() == [2, 1, 2]
    candidates = half_circle(20)
    arms = replies(policy, candidates, rewards)
    order = Draws(policy.seed).places(candidates.arms, 20).tolist()
    assert arms == [order[trial] for trial in trials]


def test_when_all_were_tried_the_first_one_begins_again() -> None:
    arms = replies(KFailure(), half_circle(3), [0.0] * 7)
    assert sorted(arms[:3]) == [0, 1, 2]
    assert arms[3:6] == arms[:3]
    assert arms[6] == arms[0]


def test_a_settled_arm_that_is_gone_teaches_nothing_and_comes_back() -> None:
    policy, candidates = NonRecallingMRun(4), half_circle(5)
    settled = replies(policy, candidates, [1.0, 1.0])[-1]
    without = candidates.take(np.flatnonzero(candidates.arms != settled))
    for _ in range(3):
        choice = policy.choose(without, ANCHOR)
        assert choice is not None
        policy.update(choice, 0.0)
    assert replies(policy, candidates, [0.0, 0.0]) == [settled] * 2


def test_rewards_are_0_and_1() -> None:
    policy = KFailure()
    choice = policy.choose(half_circle(3), ANCHOR)
    assert choice is not None
    with pytest.raises(InvalidInput, match=r"a reward must be 0 or 1; received 0\.5"):
        policy.update(choice, 0.5)
    assert policy.rounds == 0


def test_compiled_games_are_those_of_the_policy() -> None:
    """Means 0 and 1: both stop failing when the rule has met an arm that never fails."""
    for policy in (KFailure(), MRun(100), NonRecallingMRun(100), TwoTarget(100)):
        means = np.array([0.0, 0.0, 1.0, 0.0])
        plays = policy_game(policy, half_circle(4), means, 100, np.random.default_rng(0))
        assert plays[2] >= 100 - 3 * 3


@pytest.mark.parametrize(
    ("policy", "at_most"),
    [(NonRecallingMRun(10_000), 205.0), (TwoTarget(10_000, 3), 178.0)],
)
def test_failures_are_those_of_the_paper(policy: Trials, at_most: float) -> None:
    """Uniform means, N = 10,000: √(2N) = 141 for any strategy, 2√N = 200 for runs, asymptotically.

    1,000 games; the standard error is about 4.
    """
    failures = [trial_game(policy, 10_000, np.random.default_rng(seed)) for seed in range(1000)]
    assert 141 < np.mean(failures) <= at_most


@pytest.mark.soak
def test_recall_costs_more_than_going_on_at_this_horizon() -> None:
    games = range(300)
    recall = [trial_game(MRun(10_000), 10_000, np.random.default_rng(seed)) for seed in games]
    assert 200 < np.mean(recall) < 320
    one = [trial_game(KFailure(), 10_000, np.random.default_rng(seed)) for seed in range(50)]
    assert np.mean(one) > 2 * np.mean(recall)  # Θ(N / log N)


def test_they_are_policies() -> None:
    assert isinstance(nq.policy("k-failure@k=3"), KFailure)
