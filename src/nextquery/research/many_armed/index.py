"""Index policies: play the arm with the largest index, such as UCB1 and MOSS.

Each arm has its number of plays, and the sums of its rewards and of their squares. The random
order of the arms depends only on the seed.

- *UCB1*: the mean, and a bonus for arms with few plays (Auer et al. 2002).
- *MOSS*: minimax optimal for a known horizon (Audibert and Bubeck 2009).
- *MOSS-anytime*: MOSS without a known horizon (Degenne and Perchet 2016).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nextquery.checks import number, whole_number
from nextquery.policies.packed import Choice, Context, FailedArms, UnpackedStep, arms_in, pack_arms
from nextquery.policies.policy import Floats, Policy, State
from nextquery.policies.ridge import SUM_ROUNDING
from nextquery.selection.selector import Candidates

Ids = NDArray[np.int64]
MOST = 64
"""Sets of arms whose places are remembered."""


def ranks(arms: Ids, seed: int, salt: int = 0) -> NDArray[np.uint64]:
    """Return a pseudo-random number for each arm; the arms in order of it are in random order.

    An arm keeps its number when other candidates come and go. So the k arms with the least numbers
    are k arms drawn without replacement, for any set of candidates and without a record of it.
    `salt` makes another order. The numbers are those of the SplitMix64 generator.

    >>> ranks(np.array([5, 6, 7, 8, 9]), seed=1).argsort().tolist()
    [2, 3, 4, 0, 1]
    >>> ranks(np.array([6, 7, 9]), seed=1).argsort().tolist()
    [1, 2, 0]
    """
    start = np.array([seed & 0xFFFFFFFF, salt & 0xFFFFFFFF], np.uint64)
    key = _mixed(_mixed(start[:1]) ^ start[1:])
    return _mixed(_mixed(arms.astype(np.uint64)) ^ key)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


class Draws:
    """Draws among candidates by `ranks`; remembers the last draw, since candidates often repeat.

    >>> draws, arms = Draws(seed=0), np.arange(100)
    >>> few = draws.places(arms, 3)
    >>> len(set(few.tolist())), draws.places(arms, 5)[:3].tolist() == few.tolist()
    (3, True)
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._last: dict[int, tuple[Ids, int, Ids]] = {}
        self._sorted: tuple[Ids, Ids] | None = None
        self._found: dict[int, tuple[Ids, Ids, Ids, NDArray[np.bool_]]] = {}

    def places(self, arms: Ids, k: int, salt: int = 0) -> Ids:
        """Return the places of k of the arms, drawn without replacement, in random order."""
        known = self._last.get(salt)
        if known is not None and known[0] is arms and known[1] == k:
            return known[2]
        numbers = ranks(arms, self.seed, salt)
        if k < len(arms):
            some = np.argpartition(numbers, k - 1)[:k]
            found = some[np.argsort(numbers[some])]
        else:
            found = np.argsort(numbers)
        self._last[salt] = (arms, k, found)
        return found

    def find(self, arms: Ids, wanted: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the places of the wanted arms that are among `arms`, and which of them are."""
        found = self._found.get(id(wanted))
        if found is not None and found[0] is arms and found[1] is wanted:
            return found[2], found[3]
        known = self._sorted
        if known is None or known[0] is not arms:
            known = self._sorted = (arms, np.argsort(arms))
        order = known[1]
        at = np.minimum(np.searchsorted(arms, wanted, sorter=order), len(arms) - 1)
        places = order[at]
        there = arms[places] == wanted
        if len(self._found) >= MOST:
            self._found.clear()
        self._found[id(wanted)] = (arms, wanted, places[there], there)
        return places[there], there

    def one_of(self, places: Ids, round_: int) -> int:
        """Return one of some places, as if at random; the same one for the same round."""
        if len(places) == 1:
            return int(places[0])
        return int(places[ranks(places, self.seed, -1 - round_).argmin()])


class ArmStatistics:
    """Three numbers per arm, in arrays up to the largest arm played. Their order never matters.

    >>> seen = ArmStatistics()
    >>> seen.replace(7, None, 1.0)
    >>> seen.replace(7, None, 0.0)
    >>> [values.tolist() for values in seen.of(np.array([7, 8]))]  # plays, means, variances
    [[2.0, 0.0], [0.5, 0.0], [0.25, 0.0]]
    """

    def __init__(self) -> None:
        self.updates = 0
        self.cells = np.zeros((3, 1))  # the last column stands for every arm beyond

    def of(self, arms: Ids) -> tuple[Floats, Floats, Floats]:
        """Return the plays, the means and the (biased) variances of some arms; 0 if not played."""
        plays, means = self.plays_and_means(arms)
        squares = self.cells[2].take(self._at(arms))
        return plays, means, np.maximum(squares / np.maximum(plays, 1.0) - means * means, 0.0)

    def plays_and_means(self, arms: Ids) -> tuple[Floats, Floats]:
        """Return the plays and the means of some arms; 0 if not played."""
        at = self._at(arms)
        plays = self.cells[0].take(at)
        return plays, self.cells[1].take(at) / np.maximum(plays, 1.0)

    def _at(self, arms: Ids) -> Ids:
        last = self.cells.shape[1] - 1
        return np.where(arms < 0, last, np.minimum(arms, last))

    @property
    def played(self) -> Ids:
        """The arms that were played, in order of id."""
        return np.flatnonzero(self.cells[0])

    def replace(self, arm: int, old: float | None, new: float | None) -> None:
        """Replace the reward `old` of a play with `new`; None means not observed."""
        whole_number(arm, "arm", at_least=0)
        if arm >= self.cells.shape[1] - 1:
            self._extend(max(arm + 2, 2 * self.cells.shape[1]))
        change = (new is not None) - (old is not None)
        before, after = old or 0.0, new or 0.0
        self.cells[0, arm] += change
        self.cells[1, arm] += after - before
        self.cells[2, arm] += after * after - before * before
        self.updates += change

    def observe(self, failed: FailedArms, success: int | None, sign: int) -> None:
        """Add a whole step (`sign` 1) or remove it (−1): all failed but one. It is one update.

        >>> seen = ArmStatistics()
        >>> seen.observe(FailedArms(np.array([7, 8]), 1.0), 8, 1)
        >>> [values.tolist() for values in seen.plays_and_means(np.array([7, 8]))], seen.updates
        ([[1.0, 1.0], [0.0, 1.0]], 1)
        """
        ids = failed.ids[failed.ids >= 0]
        reached = max(int(ids.max(initial=-1)), -1 if success is None else success)
        if reached >= self.cells.shape[1] - 1:
            self._extend(max(reached + 2, 2 * self.cells.shape[1]))
        self.cells[0, ids] += sign * failed.weight
        if success is not None:
            self.cells[1:, success] += sign
        self.updates += sign
        if sign < 0:  # what is only the rounding of plays that were removed is 0
            left = self.cells[:, ids]
            self.cells[:, ids] = np.where(np.abs(left) < SUM_ROUNDING, 0.0, left)

    def take_over(self, current: "ArmStatistics", base: "ArmStatistics") -> None:
        """Add what `current` has learnt since it was `base`."""
        width = max(model.cells.shape[1] for model in (self, current, base))
        for model in (self, current, base):
            model._extend(width)
        self.cells += current.cells - base.cells
        self.updates += current.updates - base.updates

    def move_to(self, at: float) -> None:
        """Do nothing: nothing fades."""

    def _extend(self, width: int) -> None:
        wider = np.zeros((3, width))
        wider[:, : self.cells.shape[1]] = self.cells
        self.cells = wider

    def state(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Return the statistics as arrays."""
        arms = np.flatnonzero(self.cells.any(axis=0))
        return {
            f"{prefix}arms": arms,
            f"{prefix}cells": self.cells[:, arms],
            f"{prefix}updates": np.array(self.updates),
        }

    def restore(self, state: Mapping[str, NDArray[Any]], prefix: str = "") -> None:
        """Restore the statistics from a `state`."""
        arms = state[f"{prefix}arms"]
        self.cells = np.zeros((3, int(arms.max(initial=-1)) + 2))
        self.cells[:, arms] = state[f"{prefix}cells"]
        self.updates = int(state[f"{prefix}updates"])


UNPLAYED = 1e4
"""The index of an arm that was not played yet: above any other."""


class IndexPolicy(Policy):
    """Score = index(mean, variance, plays, t, K, constants); the largest is played.

    t is the number of the round, from 1; K the number of arms in play. Unplayed arms come first.
    Ties are broken at random. The arms in play are drawn once, without replacement: see `Draws`.
    A step whose next query is known counts as a play of every candidate, and as one round.
    A subclass defines `index`, which NumPy and Numba can both run, and may limit `arms_in_play`.
    """

    index: ClassVar[Callable[..., Any]]

    fixed: ClassVar[bool] = False
    """Whether an arm's index changes only when it is played."""

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._seen = ArmStatistics()
        self._draws = Draws(self.seed)

    @property
    @abstractmethod
    def constants(self) -> tuple[float, ...]:
        """The constants of the index."""

    def arms_in_play(self, arms: int, t: int) -> int:
        """Return how many of the candidates are in play in round t."""
        return arms

    @property
    def learns(self) -> str:
        """The rewards of each arm."""
        return "arm rewards"

    def _scores(self, candidates: Candidates, features: Floats) -> Floats:
        n, t = len(candidates), self._seen.updates + 1
        if not n:
            return np.empty(0)
        k = min(n, self.arms_in_play(n, t))
        places = np.arange(n) if k == n else self._draws.places(candidates.arms, k)
        plays, means, variances = self._seen.of(candidates.arms[places])
        played = np.flatnonzero(plays > 0)
        index = np.full(k, UNPLAYED)
        index[played] = type(self).index(
            means[played], variances[played], plays[played], max(t, 2), k, self.constants
        )
        scores = np.full(n, -np.inf)
        scores[places] = index
        return scores

    def _probabilities(
        self, candidates: Candidates, features: Floats, scores: Floats, rng: np.random.Generator
    ) -> Floats:
        best = scores == scores.max()
        return np.asarray(best / np.count_nonzero(best), np.float64)

    def _correct(self, choice: Choice, old: float | None, new: float | None) -> None:
        self._seen.replace(choice.arm, old, new)

    def _failures(
        self, candidates: Candidates, context: Context, rng: np.random.Generator
    ) -> bytes:
        return pack_arms(candidates.arms, rng)

    def _check_step(self, step: UnpackedStep, success: Choice | None) -> None:
        arms_in(step)
        if success is not None:
            whole_number(success.arm, "arm", at_least=0)

    def _observe(
        self, step: UnpackedStep, success: Choice | None, sign: int, at: float | None
    ) -> None:
        self._seen.observe(arms_in(step), None if success is None else success.arm, sign)

    def _models(self) -> Sequence[ArmStatistics]:
        return (self._seen,)

    def _state(self) -> State:
        return self._seen.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._seen.restore(state)


def moss_index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return x̄ + √(max(ln(T / (K s)), 0) / s), with T the only constant.

    >>> round(float(moss_index(0.5, 0.25, 2.0, 8, 5, (100.0,))), 4)  # 0.5 + √(ln(10) / 2)
    1.573
    >>> float(moss_index(0.5, 0.25, 20.0, 8, 5, (100.0,)))
    0.5
    """
    return mean + np.sqrt(np.maximum(np.log(constants[0] / (arms * plays)), 0.0) / plays)


class MOSS(IndexPolicy):
    """Play the largest x̄ + √(max(ln(T / (K s)), 0) / s).

    Parameters
    ----------
    horizon : T, the number of rounds; at least 1.
    """

    assumptions = "Rewards in [0, 1], independent; the number of rounds is known."
    regret = "O(√(K T))"
    reference = "Audibert, Bubeck 2009, Minimax policies for adversarial and stochastic bandits"
    index = staticmethod(moss_index)
    fixed = True

    def __init__(self, horizon: int = 1000, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.horizon = whole_number(horizon, "horizon", at_least=1)

    @property
    def constants(self) -> tuple[float, ...]:
        """T."""
        return (float(self.horizon),)


def moss_anytime_index(
    mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any
) -> Any:
    """Return x̄ + √((1 + α)/2 · max(ln(n / (K s)), 0) / s), with n = t − 1 plays; α is constant.

    >>> round(float(moss_anytime_index(0.5, 0.25, 2.0, 101, 5, (1.0,))), 4)  # 0.5 + √(ln(10) / 2)
    1.573
    """
    spread = np.maximum(np.log((t - 1.0) / (arms * plays)), 0.0) / plays
    return mean + np.sqrt(0.5 * (1.0 + constants[0]) * spread)


class MossAnytime(IndexPolicy):
    """Play the largest x̄ + √((1 + α)/2 · max(ln(n / (K s)), 0) / s), n plays so far.

    Parameters
    ----------
    bonus : α, at least 0; 1.35 is the value that SMPyBandits found best.
    """

    assumptions = "Rewards in [0, 1], independent; the number of rounds may be unknown."
    regret = "O(√(K T))"
    reference = (
        "Degenne, Perchet 2016, Anytime optimal algorithms in stochastic multi-armed bandits"
    )
    index = staticmethod(moss_anytime_index)

    def __init__(self, bonus: float = 1.35, *, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.bonus = number(bonus, "bonus", low=0)

    @property
    def constants(self) -> tuple[float, ...]:
        """α."""
        return (self.bonus,)


def ucb1_index(mean: Any, variance: Any, plays: Any, t: Any, arms: Any, constants: Any) -> Any:
    """Return x̄ + √(2 ln n / s), with n = t − 1 plays so far.

    >>> round(float(ucb1_index(0.5, 0.25, 2.0, 9, 3, ())), 4)  # 0.5 + √ln 8
    1.942
    """
    return mean + np.sqrt(2.0 * np.log(t - 1.0) / plays)


class UCB1(IndexPolicy):
    """Play every arm once, then the largest x̄ + √(2 ln n / s), with n the plays so far.

    With arms that earn 1, 0 and 0, in round 4 n = 3 and all s = 1: 1 + 1.482 against 1.482, so the
    first. Round 5: 1 + √(2 ln 4 / 2) = 2.177 against 1.665, the first. Round 6: 1 + √(2 ln 5 / 3) =
    2.036 against 1.794, the first.
    """

    assumptions = "Rewards in [0, 1], independent, with a fixed mean for each arm."
    regret = "8 Σ ln T / Δ + (1 + π²/3) Σ Δ over the suboptimal arms"
    reference = "Auer, Cesa-Bianchi, Fischer 2002, Finite-time analysis of the multiarmed bandit"
    index = staticmethod(ucb1_index)

    @property
    def constants(self) -> tuple[float, ...]:
        """There are none."""
        return ()
