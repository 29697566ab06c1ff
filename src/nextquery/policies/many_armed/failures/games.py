"""Games of the failure rules in compiled code, with the very functions that the policies use."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nextquery.policies.many_armed.failures.trials import NUMBER, Trials, new_counts
from nextquery.vectors import compiled


def trial_game(policy: Trials, rounds: int, rng: np.random.Generator) -> int:
    """Return the number of failures in a game with arms whose means are uniform on (0, 1).

    >>> from nextquery.policies.many_armed.failures.two_target import TwoTarget
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
