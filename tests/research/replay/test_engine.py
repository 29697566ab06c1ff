"""The engine against the library's policies: same seed, same choices, step by step."""

import numpy as np
import pytest

import nextquery as nq
from nextquery.policies.registry import POLICIES, policy_named
from nextquery.research.replay.anchored import (
    CandidateSets,
    Game,
    allowed_sizes,
    fresh,
    play,
    rewards_at,
    select_sets,
)
from nextquery.research.replay.cells import Anchors, generator
from nextquery.selection import Schedule
from tests.research.replay.worlds import small_world

VARIANTS = [
    *(name for name in POLICIES if not policy_named(name).needs_memory),
    "lin-ts@draws=7",  # no kernel for this one: it plays in Python
    "lin-ucb-published@alpha=0.0",
    "lin-ucb-published@alpha=2.5",
    "lin-ucb@alpha=1.0,ridge=0.5",
    "lin-ucb-shared@features=arm,prior=none,alpha=1.0",
    "lin-ts@v=0.2,features=interaction",
    "lin-ucb-feedback@alpha=1.0,feedback=0.5",
]


def by_the_library(game: Game, name: str, seed: int) -> list[list[int]]:
    """Return the arms that the policy itself chooses, anchor by anchor."""
    everything = []
    for i, anchor in enumerate(game.anchors.tolist()):
        arms = game.sets.arms[game.sets.offsets[i] : game.sets.offsets[i + 1]]
        vector = game.pool.rows([anchor])[0]
        similarities = game.pool.score(arms, vector)
        preferences = np.arange(len(arms), 0, -1).astype(np.float64)  # best first, as selected
        candidates = nq.Candidates(arms, game.pool.rows(arms), similarities, preferences)
        targets = dict(
            zip(arms.tolist(), game.sets.targets[game.sets.offsets[i] :].tolist(), strict=False)
        )
        rng, chosen = generator(seed, name, i), []
        policy = fresh(policy_named(name), rng)
        sizes = allowed_sizes(len(arms), game)
        for trial in range(1, game.rounds + 1):
            allowed = candidates.take(np.arange(sizes[trial - 1]))
            choice = policy.choose(allowed, nq.Context(vector, trial=trial), rng)
            if choice is not None:
                policy.update(choice, float(targets[choice.arm]))
                chosen.append(choice.arm)
        everything.append(chosen)
    return everything


def by_the_engine(game: Game, name: str, seed: int) -> list[list[int]]:
    played = play(game, policy_named(name), name, seed)
    starts = game.sets.offsets[:-1].tolist()
    return [
        [int(game.sets.arms[start + place]) for place in row.tolist() if place >= 0]
        for start, row in zip(starts, played, strict=True)
    ]


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(None, id="fixed", marks=pytest.mark.soak),
        pytest.param(nq.Bump(peak=12, start=2), id="grows"),
    ],
)
@pytest.mark.parametrize("name", VARIANTS)
def test_the_engine_plays_what_the_library_plays(name: str, schedule: Schedule | None) -> None:
    pool, past = small_world()
    anchors = Anchors(np.arange(4), past.arms[past.offsets[:4]])
    sets = select_sets(pool, past, anchors, nq.MaxUtility(k=12), seed=0)
    game = Game(pool, anchors.arms, sets, 60, schedule)
    for seed in (0, 1):
        assert by_the_engine(game, name, seed) == by_the_library(game, name, seed)


def test_long_games_stay_equal_though_the_library_refreshes_its_inverse() -> None:
    pool, past = small_world()
    anchors = Anchors(np.arange(1), past.arms[:1])
    sets = select_sets(pool, past, anchors, nq.MaxUtility(k=20), seed=0)
    game = Game(pool, anchors.arms, sets, 700)
    for name in ("lin-ts", "lin-ucb-shared"):
        assert by_the_engine(game, name, 3) == by_the_library(game, name, 3)


@pytest.mark.parametrize(
    "schedule", [nq.Bump(peak=12, start=2), nq.Power(9, start=2), nq.LambertPower(9, start=2)]
)
def test_a_growing_set_is_algorithm_2(schedule: Schedule) -> None:
    """The selector adds the first arms of the whole set while C grows."""
    pool, _ = small_world()
    selector = nq.MaxUtility(k=12)
    vector = pool.rows([0])[0]
    whole = selector.select(pool, vector, [0])
    kept: list[int] = []
    game = Game(pool, np.zeros(1, np.int64), NOTHING, 8, schedule)
    for size in allowed_sizes(12, game).tolist():
        kept = selector.select(pool, vector, [0], k=size, keep=kept).arms.tolist()
        assert kept == whole.arms[:size].tolist()


def test_an_anchor_without_candidates_plays_nothing_and_is_never_rewarded() -> None:
    pool, _ = small_world()
    game = Game(pool, np.array([0, 1]), NOTHING._replace(offsets=np.zeros(3, np.int64)), 5)
    played = play(game, policy_named("lin-ucb"), "lin-ucb", 0)
    assert (played == -1).all()
    assert rewards_at(game, played, np.array([1, 5])).tolist() == [[0, 0], [0, 0]]


NOTHING = CandidateSets(np.empty(0, np.int64), np.zeros(2, np.int64), np.empty(0, np.bool_))


def test_the_floor_of_a_growing_set_counts_what_it_reaches() -> None:
    """A target beyond the last size of the set can never be played, so it is not covered."""
    sets = CandidateSets(np.arange(4), np.array([0, 4]), np.array([False, False, False, True]))
    assert sets.covered().tolist() == [True]
    assert sets.covered(3).tolist() == [False]
