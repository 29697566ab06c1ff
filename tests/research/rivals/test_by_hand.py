"""Every rival against its formula written out with loops, on random small logs with times."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings

from nextquery.research.rivals.registry import rival_named
from tests.few_examples import few
from tests.research.rivals import by_hand
from tests.research.rivals.worlds import ARMS, World, worlds

CASES: dict[str, Callable[[World], by_hand.Scores | None]] = {
    "popularity": by_hand.popularity,
    "n-gram": by_hand.n_gram,
    "n-gram@longest=1": lambda world: by_hand.n_gram(world, longest=1),
    "vmm": by_hand.vmm,
    "vmm@longest=3,growth=0.3": lambda world: by_hand.vmm(world, longest=3, growth=0.3),
    "ar": by_hand.ar,
    "ar@places=2": lambda world: by_hand.ar(world, places=2),
    "sr": by_hand.sr,
    "sr@steps=2,places=2": lambda world: by_hand.sr(world, steps=2, places=2),
    "s-knn": by_hand.s_knn,
    "s-knn@similarity=jaccard,neighbours=2,sample=3": lambda world: by_hand.s_knn(
        world, neighbours=2, sample=3, jaccard=True
    ),
    "vs-knn": by_hand.vs_knn,
    "vs-knn@neighbours=2,sample=3": lambda world: by_hand.vs_knn(world, neighbours=2, sample=3),
    "stan": by_hand.stan,
    "stan@session_days=none": lambda world: by_hand.stan(world, session_days=None),
    "stan@session_days=1,neighbours=2,sample=3": lambda world: by_hand.stan(
        world, session_days=1.0, neighbours=2, sample=3
    ),
    "vstan": by_hand.vstan,
    "vstan@match_decay=3,rarity=0.5": lambda world: by_hand.vstan(
        world, match_decay=3.0, rarity=0.5
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=few(40), deadline=None)
@given(world=worlds())
def test_the_ranking_is_that_of_the_formula(name: str, world: World) -> None:
    scores = CASES[name](world)
    assume(scores is not None)
    assert scores is not None
    allowed = {arm: score for arm, score in scores.items() if arm not in world.excluded}
    ranking = rival_named(name, world.memory).rank(world.step, ARMS).tolist()
    assert set(ranking) == set(allowed)
    in_order = [allowed[arm] for arm in ranking]
    for better, worse in pairwise(in_order):
        assert better >= worse * (1 - 1e-9)


@settings(max_examples=few(30), deadline=None)
@given(world=worlds())
def test_similarity_and_support(world: World) -> None:
    step, counts = world.step, by_hand.popularity(world)
    support = np.log1p([counts.get(arm, 0.0) for arm in step.selected.arms.tolist()])
    scores = 0.5 * step.selected.similarities + 0.5 * support / max(support.max(), 1e-12)
    order = step.selected.arms[np.argsort(-scores, kind="stable")].tolist()
    ranking = rival_named("similarity-support", world.memory).rank(step, ARMS).tolist()
    by_score = dict(zip(step.selected.arms.tolist(), scores.tolist(), strict=True))
    assert set(ranking) == set(order) - world.excluded
    assert [by_score[arm] for arm in ranking] == [
        by_score[arm] for arm in order if arm in set(ranking)
    ]
