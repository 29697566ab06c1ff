"""Policies that play some of the arms: how many, traces by hand, and what their authors claim."""

import math

import numpy as np
import pytest

from nextquery.research.many_armed.classical import EpsilonGreedy, Thompson
from nextquery.research.many_armed.index import (
    MOSS,
    UCB1,
    ArmStatistics,
    Draws,
    IndexPolicy,
    MossAnytime,
    ranks,
)
from nextquery.research.many_armed.simulate import index_game, policy_game
from nextquery.research.many_armed.subsets import (
    UCBAIR,
    UCBF,
    EmpiricalMossPlusPlus,
    MossPlusPlus,
    ParallelMoss,
    QuantileMoss,
    SubsampledGreedy,
    SubsampledUCB,
    VirtualArms,
)
from tests.research.many_armed.worlds import ANCHOR, half_circle, play, replies


def test_a_draw_is_uniform_and_without_replacement() -> None:
    """Each of 10 arms is among 3 drawn ones in 3 of 10 seeds: 3,000 seeds, error 0.0084."""
    arms, counts = np.arange(10), np.zeros(10)
    for seed in range(3000):
        places = Draws(seed).places(arms, 3)
        assert len(set(places.tolist())) == 3
        counts[places] += 1
    assert np.abs(counts / 3000 - 0.3).max() < 0.035
    first, second = ranks(arms, 0), ranks(arms, 0, salt=1)
    assert first.argsort().tolist() != second.argsort().tolist()


def test_statistics_forget_the_order() -> None:
    one, other = ArmStatistics(), ArmStatistics()
    for arm, reward in ((3, 0.5), (0, 1.0), (3, 0.0)):
        one.replace(arm, None, reward)
    other.replace(3, None, 1.0)
    other.replace(3, None, 0.5)
    other.replace(0, None, 1.0)
    other.replace(3, 1.0, 0.0)
    assert np.array_equal(one.cells[:, :4], other.cells[:, :4])
    assert one.updates == other.updates == 3
    mine = ArmStatistics()
    mine.replace(9, None, 1.0)
    mine.take_over(one, ArmStatistics())
    assert [row.tolist() for row in mine.of(np.array([3, 9, -1]))[:2]] == [[2, 1, 0], [0.25, 1, 0]]


SIZES: list[tuple[IndexPolicy, int, int]] = [  # of 9,999 arms in round 1,000
    (UCBF(10_000), 1000, 100),
    (UCBF(10_000, beta=0.5), 1000, 10),
    (UCBF(10_000, beta=3.0), 1000, 1000),
    (UCBAIR(), 1024, 32),
    (SubsampledGreedy(10_000), 1000, 100),
    (SubsampledGreedy(1000, noise="gaussian"), 1000, 100),
    (SubsampledUCB(10_000, beta=2.0), 1000, 10_000),
    (QuantileMoss(), 1023, math.ceil(2 ** (0.347 * 10))),
    (QuantileMoss(), 1022, math.ceil(2 ** (0.347 * 9))),
]


@pytest.mark.parametrize(("policy", "t", "size"), SIZES)
def test_the_number_of_arms(policy: IndexPolicy, t: int, size: int) -> None:
    assert policy.arms_in_play(9999, t) == size


@pytest.mark.parametrize("policy", [UCBF(100), SubsampledGreedy(100), SubsampledUCB(100)])
def test_only_the_arms_that_were_drawn_are_played(policy: IndexPolicy) -> None:
    arms = play(policy, half_circle(40), [0.5] * 40, 60)
    assert sorted(arms[:10]) == sorted(Draws(0).places(np.arange(40), 10).tolist())
    assert set(arms) == set(arms[:10])


def test_traces_by_hand_of_the_classics() -> None:
    """Three arms, the first to be played earns 1 and the others 0: see the docstring of UCB1."""
    for policy in (UCB1(), MOSS(100), EpsilonGreedy(0.0), MossAnytime()):
        arms = replies(policy, half_circle(3), [1, 0, 0, 1, 1])
        assert arms[3:] == [arms[0]] * 2
        choice = policy.choose(half_circle(3), ANCHOR)
        assert choice is not None
        assert choice.arm == arms[0]
        if isinstance(policy, UCB1):
            assert choice.score == pytest.approx(1 + math.sqrt(2 * math.log(5) / 3))
        if isinstance(policy, MOSS):
            assert choice.score == pytest.approx(1 + math.sqrt(math.log(100 / 9) / 3))


def test_ucb_air_plays_a_new_arm_after_each_square() -> None:
    arms = play(UCBAIR(), half_circle(20), [0.5] * 20, 17)
    new = [t for t in range(1, 18) if arms[t - 1] not in arms[: t - 1]]
    assert new == [1, 2, 5, 10, 17]


def test_thompson_draws_from_the_beta_posterior() -> None:
    """P(Beta(2, 1) > Beta(1, 2)) = 5/6."""
    policy = Thompson(draws=4000)
    first = policy.as_choice(half_circle(2), ANCHOR, 0)
    second = policy.as_choice(half_circle(2), ANCHOR, 1)
    assert first is not None
    assert second is not None
    policy.update(first, 1.0)
    policy.update(second, 0.0)
    features = np.empty((2, 0))
    scores = policy._scores(half_circle(2), features)
    assert scores.tolist() == pytest.approx([2 / 3, 1 / 3])
    own = policy._probabilities(half_circle(2), features, scores, np.random.default_rng(0))
    assert own[0] == pytest.approx(5 / 6, abs=0.025)
    with pytest.raises(ValueError, match="rewards from 0 to 1; received 2"):
        policy.update(first, 2.0)


@pytest.mark.parametrize("policy", [UCB1(), MOSS(400), UCBAIR(), SubsampledGreedy(400)])
def test_compiled_games_are_those_of_the_policy(policy: IndexPolicy) -> None:
    """Rewards are the means themselves (no noise), so both play the same number of times."""
    rng, means = np.random.default_rng(0), np.array([0.9, 0.5, 0.4, 0.3])
    order = policy._draws.places(np.arange(4), 4)
    compiled = index_game(policy, means[order], 400, rng, noise=0.0)
    candidates, plays = half_circle(4), np.zeros(4)
    for _ in range(400):
        choice = policy.choose(candidates, ANCHOR, rng)
        assert choice is not None
        policy.update(choice, float(means[choice.arm]))
        plays[choice.arm] += 1
    assert plays[order].tolist() == compiled.tolist()


class TestVirtualArms:
    @pytest.mark.parametrize("kind", [MossPlusPlus, EmpiricalMossPlusPlus])
    def test_the_iterations(self, kind: type[VirtualArms]) -> None:
        """T = 16, β = ½: p = 2, iterations of 8, 16, … rounds with 8 and 4 real arms."""
        policy, candidates = kind(16), half_circle(30)
        seen = []
        for t in range(24):
            seen.append((policy.iteration, policy.size()))
            place = policy.play(candidates, lambda p: float(p % 2), np.random.default_rng(t))
            assert 0 <= place < 30
        assert seen == [(1, 8)] * 8 + [(2, 4)] * 16
        ids, shares = policy._mixtures[0]
        assert shares.sum() == pytest.approx(1)
        assert len(ids) <= 8

    def test_the_mixture_is_in_proportion_to_the_plays(self) -> None:
        policy = MossPlusPlus(16)
        for arm, plays in ((3, 5), (8, 3)):
            for _ in range(plays):
                policy._learn(arm, 0, 0.0)
                policy.rounds += 1
        ids, shares = policy._mixtures[0]
        assert ids.tolist() == [3, 8]
        assert shares.tolist() == [5 / 8, 3 / 8]
        assert policy._real.updates == 0  # statistics begin anew
        other = EmpiricalMossPlusPlus(16)
        for arm, reward in ((3, 1.0), (8, 0.0), (5, 1.0), (6, 1.0), (7, 1.0), (9, 0.0), (10, 0.0)):
            other._learn(arm, 0, reward)
            other.rounds += 1
        other._learn(8, 0, 0.0)
        assert sorted(other._kept.tolist()) == [3, 5, 6, 7]

    def test_a_virtual_arm_that_was_never_played_comes_first(self) -> None:
        policy = MossPlusPlus(16)
        for _ in range(8):
            policy._learn(3, 0, 0.0)
            policy.rounds += 1
        assert policy._next_plays(half_circle(30)).places.tolist() == [3]
        assert policy._next_plays(half_circle(30)).code == 1
        assert policy._next_plays(half_circle(3)).code == 0  # arm 3 is no candidate

    def test_with_many_best_arms_it_is_better_than_moss_on_all(self) -> None:
        """A small world of Zhu and Nowak: 2,000 arms, T = 4,000, one in twenty at 0.9."""
        rest = np.resize([0.1, 0.2, 0.3, 0.4, 0.5], 1900)
        rng, candidates = np.random.default_rng(0), half_circle(2000)
        means = rng.permutation(np.concatenate([np.full(100, 0.9), rest]))
        moss = 4000 * 0.9 - float(index_game(MOSS(4000), means, 4000, rng) @ means)
        for policy in (MossPlusPlus(4000), EmpiricalMossPlusPlus(4000)):
            plays = policy_game(policy, candidates, means, 4000, rng)
            assert 4000 * 0.9 - float(plays @ means) < 0.6 * moss


def test_parallel_goes_on_with_the_one_that_lost_least() -> None:
    policy = ParallelMoss(100, best=1.0)
    assert (policy.block, len(policy.sizes)) == (10, 5)
    policy._losses[:] = (5.0, 2.0, 7.0, 9.0, 9.0)
    assert policy._next_plays(half_circle(9)).code == 1
    policy.rounds, policy._current = 5, 2  # in the middle of a block
    assert policy._next_plays(half_circle(9)).code == 2


@pytest.mark.soak
def test_greedy_on_a_subsample_beats_ucb_and_greedy_on_all_arms() -> None:
    """Bayati et al.: T = 20,000 and 3,000 arms with uniform means, rewards of 0 and 1; 3 games."""
    regret = {}
    for name, policy in (
        ("ssg", SubsampledGreedy(20_000)),
        ("greedy", SubsampledGreedy(arms=3000)),
        ("ss-ucb", SubsampledUCB(20_000)),
    ):
        total = 0.0
        for seed in range(3):
            rng = np.random.default_rng(seed)
            means = rng.random(3000)
            total += 20_000 * means.max() - index_game(policy, means, 20_000, rng) @ means
        regret[name] = total / 3
    assert regret["ssg"] < regret["ss-ucb"] < regret["greedy"]


def test_the_regret_of_ucb1_is_below_its_bound_and_that_of_moss_below_it() -> None:
    """Auer et al.: 8 Σ ln T / Δ + (1 + π²/3) Σ Δ. MOSS is minimax optimal: O(√(K T))."""
    means, T = np.array([0.9, 0.6, 0.5, 0.5, 0.4, 0.4, 0.3, 0.3, 0.2, 0.1]), 20_000
    gaps = 0.9 - means[1:]
    bound = float((8 * math.log(T) / gaps + (1 + math.pi**2 / 3) * gaps).sum())
    regret = {}
    for policy in (UCB1(), MOSS(T)):
        games = [index_game(policy, means, T, np.random.default_rng(seed)) for seed in range(20)]
        regret[type(policy)] = float(T * 0.9 - np.mean(games, axis=0) @ means)
    assert 0 < regret[UCB1] < bound
    assert regret[MOSS] < min(regret[UCB1], math.sqrt(10 * T))
