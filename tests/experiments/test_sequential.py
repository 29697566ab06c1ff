"""The test that is valid at any time, against direct sums and simulated runs."""

import numpy as np
import pytest

from benchmarks.experiments import interleaved, split_test, watched
from nextquery.experiments.assignment import Credits, team_draft
from nextquery.experiments.sequential import (
    Difference,
    Watch,
    bounds,
    guesses,
    interval,
    log_evidence,
)

HALF, SAFE = (0.5, 0.5), (0.95, 0.05)


def test_the_evidence_is_the_mixture_of_its_definition() -> None:
    total, squares, c = 37.0, 80.0, 2.0
    terms = []
    for step in range(14):
        u = 0.8 * 0.5**step
        terms.append(np.exp(u / c * total - (-np.log(1 - u) - u) / c**2 * squares))
    assert log_evidence(total, squares, c) == pytest.approx(np.log(np.mean(terms)))


def test_one_step_of_the_evidence_is_at_most_one_on_average() -> None:
    """The inequality of the proof, for the worst laws: two points, X̂ guessed at random."""
    rng, c = np.random.default_rng(0), 1.0
    for _ in range(200):
        guess, high = rng.uniform(-1, 1), rng.uniform(0.01, 5)
        low = guess - c
        chance = (0 - low) / (high - low) if low < 0 < high else None
        if chance is None:
            continue  # the mean must be 0
        x = np.array([low, high])
        for step in range(14):
            u = 0.8 * 0.5**step
            factor = np.exp(u * x - (-np.log(1 - u) - u) * (x - guess) ** 2)
            assert factor @ [1 - chance, chance] <= 1 + 1e-12


def test_the_interval_ends_where_the_evidence_begins() -> None:
    found = interval(500, 60.0, 120.0, (3.0, 1.5), alpha=0.1)
    at_low = log_evidence(60.0 - 500 * found.low, 120.0, 3.0)
    at_high = log_evidence(500 * found.high - 60.0, 120.0, 1.5)
    assert at_low == pytest.approx(np.log(20), abs=1e-6)
    assert at_high == pytest.approx(np.log(20), abs=1e-6)
    assert interval(0, 0.0, 0.0, (1.0, 1.0)).low == -np.inf


def test_the_difference_is_unbiased_and_its_scores_keep_their_bounds() -> None:
    below, above = bounds(SAFE)
    for hits, sessions in (([0, 0], [0, 0]), ([90, 1], [100, 5]), ([3, 4], [60, 4])):
        guess, mean = guesses(hits, sessions), 0.0
        for second, hit, chance in ((0, 1, 0.2), (0, 0, 0.8), (1, 1, 0.7), (1, 0, 0.3)):
            seen = Difference(SAFE)
            seen.hits, seen.sessions = np.array(hits, float), np.array(sessions, float)
            seen.add(hit=hit, second=bool(second))
            off = float(seen.total) - (guess[0] - guess[1])
            assert -below <= off <= above
            mean += SAFE[second] * chance * float(seen.total)
        assert mean == pytest.approx(0.2 - 0.7)


def test_equal_policies_raise_few_alarms_under_constant_looking() -> None:
    for shares in (HALF, SAFE):
        decided = split_test(lambda _: (0.3, 0.3), shares, runs=1000, sessions=400, seed=1)
        assert np.isfinite(decided).mean() <= 0.05
    flat = np.full(5, 0.1)
    assert np.isfinite(interleaved((flat, flat), runs=1000, slates=300, seed=3)).mean() <= 0.05


def test_the_better_policy_is_found_in_the_number_of_sessions_that_is_stated() -> None:
    decided = split_test(lambda _: (0.35, 0.25), HALF, runs=100, sessions=3000, seed=2)
    assert (decided <= 3000).mean() >= 0.95


def test_a_model_that_turns_bad_is_seen_in_3000_sessions_and_a_good_one_is_left_alone() -> None:
    turned = watched(
        lambda session: (0.4, 0.3) if session < 3000 else (0.05, 0.3),
        SAFE,
        runs=100,
        sessions=6000,
        seed=4,
    )
    assert (turned > 3000).all()
    assert (turned <= 6000).mean() >= 0.95
    good = watched(lambda _: (0.3, 0.3), SAFE, runs=200, sessions=3000, seed=5)
    assert np.isfinite(good).mean() <= 0.05


def test_many_at_once_are_the_same_as_one_after_the_other_and_as_what_was_saved() -> None:
    rng, watch = np.random.default_rng(6), Watch(SAFE, window=40, shape=(3,))
    singles = [Watch(SAFE, window=40) for _ in range(3)]
    for _ in range(400):
        second, hit = rng.random(3) < 0.05, rng.random(3) < 0.3
        watch.add(hit=hit, second=second)
        for number, single in enumerate(singles):
            single.add(hit=hit[number], second=second[number])
    assert watch.tests == [1, 6, 7, 8, 9, 10]
    singles[1] = Watch.from_state(singles[1].state())
    for single in singles:
        single.add(hit=True, second=False)
    watch.add(hit=np.ones(3), second=np.zeros(3))
    assert watch.evidence.tolist() == [float(single.evidence) for single in singles]
    assert Watch.from_state(singles[0].state()).state() == singles[0].state()


def test_a_draft_takes_every_query_once_and_either_team_as_often() -> None:
    rng, first, firsts = np.random.default_rng(7), list("abcdef"), 0
    for _ in range(400):
        second = list(rng.permutation(list("cdefgh")))
        draft = team_draft(first, second, 5, rng)
        shown = [(first, second)[team][at] for team, at in zip(*draft, strict=True)]
        assert len(set(shown)) == 5
        assert abs(draft.teams.count(0) - draft.teams.count(1)) == 1
        for team, own in enumerate((first, second)):  # its best that was not taken
            for number, name in enumerate(shown):
                if draft.teams[number] == team:
                    assert name == next(each for each in own if each not in shown[:number])
        firsts += draft.teams[0]
    assert 150 < firsts < 250


def test_a_draft_of_short_rankings_ends_when_both_are_used_up() -> None:
    rng = np.random.default_rng(8)
    assert len(team_draft("ab", "b", 5, rng).teams) == 2
    assert team_draft("", "", 3, rng) == ((), ())
    assert team_draft("", "ab", 5, rng).teams == (1, 1)


def test_credits_stay_within_their_range() -> None:
    credits = Credits([30, 0])
    assert credits.interval().low > 0
    assert Credits(credits.state()).interval() == credits.interval()
