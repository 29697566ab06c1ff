"""Games on synthetic worlds, with the same functions that the policies use.

Games of the index policies and of the failure rules are compiled; those of any policy run in
Python.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.policies.packed import Context
from nextquery.policies.policy import Policy
from nextquery.research.many_armed.failures import NUMBER, Sequential, Trials, new_counts
from nextquery.research.many_armed.index import UNPLAYED, IndexPolicy
from nextquery.selection.selector import Candidates
from nextquery.vectors import compiled


def trial_game(policy: Trials, rounds: int, rng: np.random.Generator) -> int:
    """Return the number of failures in a game with arms whose means are uniform on (0, 1).

    >>> from nextquery.research.many_armed.failures import TwoTarget
    >>> 50 < trial_game(TwoTarget(10_000), 10_000, np.random.default_rng(0)) < 500
    True
    """
    play = _trial_game(type(policy).step)
    return int(play(new_counts(), policy.targets, rounds, rng))


@cache
def _trial_game(step: Callable[..., None]) -> Callable[..., Any]:
    """Return the compiled game of a rule."""
    one = compiled(step, brief=True)

    def game(counts: Any, targets: Any, rounds: int, rng: Any) -> int:
        means = np.empty(rounds + 1)
        known, failures = 0, 0
        for _ in range(rounds):
            number = counts[NUMBER]
            while known <= number:
                means[known] = rng.random()
                known += 1
            success = rng.random() < means[number]
            failures += 0 if success else 1
            one(counts, 1 if success else 0, targets)
        return failures

    return compiled(game, on_disk=False)


Floats = NDArray[np.float64]


def index_game(
    policy: IndexPolicy,
    means: Floats,
    rounds: int,
    rng: np.random.Generator,
    *,
    noise: float | None = None,
) -> NDArray[np.int64]:
    """Return how often each arm is played in a game of an index policy.

    Parameters
    ----------
    policy : gives the index and the number of arms in play; its state is not used.
    means : the mean of each arm, in random order: the first ones are in play.
    noise : σ of Gaussian noise; None for rewards of 0 and 1.

    >>> from nextquery.research.many_armed.index import MOSS
    >>> plays = index_game(MOSS(1000), np.array([0.2, 0.8]), 1000, np.random.default_rng(0))
    >>> int(plays.sum()), bool(plays[1] > 900)
    (1000, True)
    """
    n = len(means)
    sizes = np.array([min(n, policy.arms_in_play(n, t)) for t in range(1, rounds + 1)])
    sums = np.zeros((3, n))
    fixed = policy.fixed and bool((sizes == sizes[0]).all())
    kind = type(policy)
    _index_game(kind.index)(
        means, sizes, policy.constants, fixed, -1.0 if noise is None else noise, rng, sums
    )
    plays: NDArray[np.int64] = sums[0].astype(np.int64)
    return plays


def policy_game(
    policy: Policy, candidates: Candidates, means: Floats, rounds: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return how often each arm, 0 … n − 1, is played in a game of any policy, in Python.

    >>> from nextquery.research.many_armed.failures import KFailure
    >>> two = Candidates(np.arange(2), np.eye(2), np.ones(2), np.ones(2))
    >>> plays = policy_game(KFailure(), two, np.array([1.0, 0.0]), 9, np.random.default_rng(0))
    >>> int(plays[1]) <= 1
    True
    """
    plays = np.zeros(len(candidates), np.int64)
    context = Context(np.zeros(candidates.vectors.shape[1]))
    for _ in range(rounds):
        if isinstance(policy, Sequential):
            place = policy.play(candidates, lambda place: _reward(means, place, rng), rng)
        else:
            choice = policy.choose(candidates, context, rng)
            assert choice is not None
            place = int(choice.arm)
            policy.update(choice, _reward(means, place, rng))
        plays[place] += 1
    return plays


def _reward(means: Floats, place: int, rng: np.random.Generator) -> float:
    return float(rng.random() < means[place])


@cache
def _index_game(index: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled game of an index."""
    one = compiled(index, brief=True)

    def game(
        means: Any, sizes: Any, constants: Any, fixed: bool, noise: float, rng: Any, sums: Any
    ) -> None:
        scores = np.full(len(means), UNPLAYED)
        for t in range(len(sizes)):
            k = sizes[t]
            best, place, ties = -np.inf, 0, 0
            for j in range(k):
                s = sums[0, j]
                if s > 0.0 and not fixed:
                    mean = sums[1, j] / s
                    variance = max(sums[2, j] / s - mean * mean, 0.0)
                    scores[j] = one(mean, variance, s, max(t + 1, 2), k, constants)
                if scores[j] > best:
                    best, place, ties = scores[j], j, 1
                elif scores[j] == best:
                    ties += 1
            if ties > 1:
                skip = int(rng.random() * ties)
                for j in range(place, k):
                    if scores[j] == best:
                        if skip == 0:
                            place = j
                            break
                        skip -= 1
            if noise < 0.0:
                reward = 1.0 if rng.random() < means[place] else 0.0
            else:
                reward = means[place] + noise * rng.standard_normal()
            sums[0, place] += 1.0
            sums[1, place] += reward
            sums[2, place] += reward * reward
            if fixed:
                s = sums[0, place]
                scores[place] = one(sums[1, place] / s, 0.0, s, max(t + 1, 2), k, constants)

    return compiled(game, on_disk=False)
