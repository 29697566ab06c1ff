"""Greedy, lazy greedy and GreeDi: pick k arms that maximise any utility.

All three return the arms in order of choice and compare only sets of size min(k, n): the paper's
log-probability falls with every arm whose P is below 1, so a set of at most one arm would otherwise
be its maximum. Ties go to the smaller arm.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import whole_number
from nextquery.errors import InvalidInput

__all__ = ["SetFunction", "greedi", "greedy", "lazy_greedy"]


class SetFunction(Protocol):
    """What an optimiser needs from a utility.

    If it also has ``gains`` and ``bounds`` for several arms at once, as
    `nextquery.selection.utility.Utility` does, they are used.

    >>> class Letters:  # how many different ones a set of words has
    ...     words = ("abc", "abz", "xy")
    ...
    ...     def value(self, arms):
    ...         return float(len(set("".join(self.words[arm] for arm in arms))))
    ...
    ...     def gain(self, arms, arm):
    ...         return self.value([*arms, arm]) - self.value(arms)
    >>> greedy(Letters(), range(3), k=2)
    [0, 2]
    """

    def value(self, arms: list[int], /) -> float:
        """Return the value of the set."""

    def gain(self, arms: list[int], arm: int, /) -> float:
        """Return what one more arm adds to the set."""


def greedy(
    utility: SetFunction, ground_set: Iterable[int], k: int, *, start: Sequence[int] = ()
) -> list[int]:
    """Add the arm with the largest gain, k times (Nemhauser, Wolsey and Fisher 1978).

    Reaches 1 − 1/e of the optimum for monotone submodular utilities. With `start`, grows that set
    to size k (Algorithm 2 of the paper).

    >>> from nextquery.selection.utility import LogProbability
    >>> greedy(LogProbability([0.1, 0.6, 0.3]), range(3), k=2)
    [1, 2]
    """
    chosen, remaining, size = _start(ground_set, k, start)
    while len(chosen) < size:
        gains = _gains(utility, chosen, remaining)
        chosen.append(remaining.pop(int(np.argmax(gains))))  # argmax breaks ties: smallest arm
    return chosen


def lazy_greedy(
    utility: SetFunction, ground_set: Iterable[int], k: int, *, start: Sequence[int] = ()
) -> list[int]:
    """Greedy that recomputes only the gains that may still be largest (Minoux 1978).

    A gain computed for a smaller set is an upper bound, so an arm whose fresh gain beats every
    old bound is the greedy choice. Same result, far fewer oracle calls (counted in
    ``utility.calls``). Gains are recomputed in batches that double; the first batch is half of what
    the last choice needed. This keeps calls few, and gains at most about twice those needed.

    >>> from nextquery.selection.utility import LogProbability
    >>> utility = LogProbability([0.1, 0.6, 0.3])
    >>> lazy_greedy(utility, range(3), k=2), utility.calls
    ([1, 2], 4)
    """
    chosen, remaining, size = _start(ground_set, k, start)
    if len(chosen) >= size:
        return chosen
    arms, bounds, batch = np.array(remaining), _gains(utility, chosen, remaining), 1
    best = int(np.argmax(bounds))  # argmax breaks ties: smallest arm
    while True:
        chosen.append(int(arms[best]))
        if len(chosen) == size:
            return chosen
        arms, bounds = np.delete(arms, best), np.delete(bounds, best)
        bounds = np.minimum(bounds, _bounds(utility, chosen, arms))
        fresh = np.zeros(len(arms), np.bool_)
        stale = np.arange(len(arms))
        while stale.size:
            refreshed = stale[_largest(bounds[stale], batch)]
            bounds[refreshed] = _gains(utility, chosen, arms[refreshed].tolist())
            fresh[refreshed] = True
            batch *= 2
            known = np.flatnonzero(fresh)
            best = int(known[np.argmax(bounds[known])])
            may_beat = bounds > bounds[best]
            may_beat[:best] |= bounds[:best] == bounds[best]
            stale = np.flatnonzero(may_beat & ~fresh)
        batch = max(1, int(np.count_nonzero(fresh)) // 2)


def greedi(
    utility: SetFunction,
    ground_set: Iterable[int],
    k: int,
    partitions: int | Sequence[Sequence[int]] = 2,
    seed: int = 0,
) -> list[int]:
    """Distributed greedy in two rounds (Algorithm 3; Mirzasoleiman et al. 2016).

    Runs lazy greedy on every part, then on the union of the parts' answers, and returns the better
    of that and the best part's answer. `partitions` is the number of parts to draw at random (with
    `seed`), or the parts themselves. For monotone submodular utilities the value is at least
    (1 − 1/e)/min(k, m) of the optimum, and (1 − 1/e)/2 in expectation for random parts.

    >>> from nextquery.selection.utility import LogProbability
    >>> greedi(LogProbability([0.1, 0.6, 0.3]), range(3), k=2, partitions=[[0, 1], [2]])
    [1, 2]
    """
    arms = _distinct(ground_set)
    size = min(whole_number(k, "k", at_least=0), len(arms))
    answers = [lazy_greedy(utility, part, size) for part in _parts(arms, partitions, seed)]
    best = lazy_greedy(utility, [arm for answer in answers for arm in answer], size)
    best_value = utility.value(best)
    for answer in answers:
        if len(answer) == size and utility.value(answer) > best_value:
            best, best_value = answer, utility.value(answer)
    return best


def _start(
    ground_set: Iterable[int], k: int, start: Sequence[int]
) -> tuple[list[int], list[int], int]:
    whole_number(k, "k", at_least=0)
    chosen = [int(arm) for arm in start]
    remaining = sorted(set(_distinct(ground_set)) - set(chosen))
    return chosen, remaining, min(k, len(remaining) + len(chosen))


def _distinct(ground_set: Iterable[int]) -> list[int]:
    arms = [int(arm) for arm in ground_set]
    if len(set(arms)) != len(arms):
        raise InvalidInput("ground_set contains an arm twice. Pass every arm once.")
    return arms


def _parts(
    arms: list[int], partitions: int | Sequence[Sequence[int]], seed: int
) -> list[list[int]]:
    if isinstance(partitions, int | np.integer):
        m = whole_number(partitions, "partitions", at_least=1)
        part_of = np.random.default_rng(seed).integers(m, size=len(arms))
        return [[arm for arm, p in zip(arms, part_of, strict=True) if p == i] for i in range(m)]
    parts = [[int(arm) for arm in part] for part in partitions]
    if sorted(arm for part in parts for arm in part) != sorted(arms):
        raise InvalidInput("partitions must contain every arm of ground_set exactly once.")
    return parts


def _gains(utility: SetFunction, chosen: list[int], arms: list[int]) -> NDArray[Any]:
    batched = getattr(utility, "gains", None)
    if batched is not None:
        return np.asarray(batched(chosen, arms))
    return np.array([utility.gain(chosen, arm) for arm in arms])


def _largest(values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the positions of the largest values, in any order."""
    if count == 1:
        return np.array([np.argmax(values)])
    if count >= len(values):
        return np.arange(len(values))
    return np.argpartition(-values, count - 1)[:count]


def _bounds(utility: SetFunction, chosen: list[int], arms: NDArray[Any]) -> NDArray[Any]:
    bounds = getattr(utility, "bounds", None)
    return np.full(len(arms), np.inf) if bounds is None else np.asarray(bounds(chosen, arms))
