"""The probabilities of a given slate are those with which it would have been drawn."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import nextquery as nq
from nextquery.policies.registry import LIVE
from nextquery.selection import Candidates

CONTEXT = nq.Context([1.0, 0.2, 0.0], history=(), trial=1)


def six() -> Candidates:
    """Six candidates, two of which have the same similarity."""
    vectors = [[1, 0, 0], [3, 1, 0], [3, 1, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1]]
    pool = nq.ArmPool.from_vectors([f"query {n}" for n in range(6)], vectors)
    candidates = nq.MaxUtility(k=6).select(pool, CONTEXT.anchor)
    return replace(candidates, features=np.eye(15, dtype=np.float32)[:6])


def learnt(name: str) -> nq.Policy:
    policy, rng = nq.policy(name, seed=3), np.random.default_rng(0)
    for _ in range(20):
        (choice,) = policy.rank(six(), CONTEXT, 1, rng, exploration=1.0)
        policy.update(choice, float(rng.random() < 0.4))
    return policy


@pytest.mark.parametrize("name", [n for n in LIVE if not nq.policy(n).estimated])
@pytest.mark.parametrize("exploration", [0.0, 0.3])
def test_they_are_the_propensities_of_the_slate(name: str, exploration: float) -> None:
    policy = learnt(name)
    for seed in range(5):
        slate = policy.rank(six(), CONTEXT, 4, np.random.default_rng(seed), exploration=exploration)
        arms = [choice.arm for choice in slate]
        rows = policy.distributions(six(), CONTEXT, arms, exploration=exploration)
        place = six().arms.tolist().index
        found = [float(row[place(arm)]) for row, arm in zip(rows, arms, strict=True)]
        assert found == pytest.approx([choice.propensity for choice in slate])
        assert [row.sum() for row in rows] == pytest.approx([1.0] * 4)
        for number, row in enumerate(rows):
            assert [row[place(arm)] for arm in arms[:number]] == [0.0] * number


def test_estimates_of_thompson_sampling_are_those_of_the_same_draws() -> None:
    policy = learnt("lin-ts-interaction")
    (choice,) = policy.rank(six(), CONTEXT, 1, np.random.default_rng(7), exploration=0.1)
    draws = np.random.default_rng(7)
    (row,) = policy.distributions(six(), CONTEXT, [choice.arm], draws, exploration=0.1)
    assert row[six().arms.tolist().index(choice.arm)] == choice.propensity


def strangers(_: Candidates) -> list[int]:
    return [99, 0]


def twins(candidates: Candidates) -> list[int]:
    return [int(arm) for arm in candidates.arms[:2]]


@pytest.mark.parametrize("arms", [strangers, twins])
def test_below_what_could_not_be_there_nothing_can_be(
    arms: Callable[[Candidates], list[int]],
) -> None:
    alike = np.arange(6).repeat(2).reshape(6, 2)
    alike[1] = alike[0]  # they say the same, so a slate shows one of them
    candidates = replace(six(), alike=alike)
    given = arms(candidates)
    rows = nq.policy("random").distributions(candidates, CONTEXT, [*given, 3])
    assert rows[0].tolist() == pytest.approx([1 / 6] * 6)
    assert rows[2].sum() == 0.0
    assert [row[candidates.arms == given[1]].sum() for row in rows[1:]] == [0.0, 0.0]


def test_nothing_to_draw_from() -> None:
    assert [
        row.tolist()
        for row in nq.policy("random").distributions(six().take(np.arange(0)), CONTEXT, [1, 2])
    ] == [[], []]
