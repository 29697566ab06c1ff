"""Tests of hit rates that stay valid whenever you look: intervals, differences and a watch.

The interval is an empirical-Bernstein confidence sequence. Let X₁, X₂, … have the means δ₁, δ₂, …
given the past, and let X̂ₜ be predicted before Xₜ is seen. If Xₜ − X̂ₜ ≥ −c, then for every λ in
[0, 1/c)

    exp(λ Σ(Xₜ − δₜ) − ψ(λ) Σ(Xₜ − X̂ₜ)²),   ψ(λ) = (−log(1 − cλ) − cλ) / c²

is at most 1 on average, whenever you stop. So is a mixture of it over several λ. By Ville's
inequality that mixture ever reaches 1/α with probability at most α. Where it does not, the mean
of the δₜ so far lies in the interval. The means may change in any way: a model that learns is
compared by its average so far. With −X the same holds for the other side.

`Difference` compares two hit rates when chance decides which policy a session gets.

`Watch` asks whether a served policy has become worse than the control. A model that was good for
a year could hide later errors behind its good average. So a new test begins every `WINDOW`
sessions. The k-th test may err with probability α/(k(k+1)). These sum to α: a false alarm, at any
time and in any of the tests, has probability at most α. The first test and the newest `KEPT`
others continue.

Reference: Howard, Ramdas, McAuliffe and Sekhon 2021, Time-uniform, nonparametric, nonasymptotic
confidence sequences, Theorem 4 and its mixtures. The grid of λ is ours; any fixed one is valid.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
ALPHA = 0.05
_U = 0.8 * 2.0 ** -np.arange(14)  # cλ: from 0.8 to 0.0001
_PSI = -np.log1p(-_U) - _U
_SPREAD = 60  # halvings of an interval


class Interval(NamedTuple):
    """An estimate and its interval."""

    mean: float
    low: float
    high: float


def log_evidence(total: ArrayLike, squares: ArrayLike, bound: float) -> Floats:
    """Return the logarithm of the evidence that the mean of X is above 0, elementwise.

    It is against "no mean δₜ is above 0", and reaches log(1/α) with probability at most α if that
    is true, however often you look.

    Parameters
    ----------
    total : ΣXₜ.
    squares : Σ(Xₜ − X̂ₜ)².
    bound : c above 0, so that Xₜ − X̂ₜ ≥ −c.

    >>> log_evidence([0.0, 60.0], [100.0, 100.0], 1.0).round(1).tolist()
    [-0.3, 10.3]
    """
    up = np.multiply.outer(np.asarray(total, float), _U / bound)
    down = np.multiply.outer(np.asarray(squares, float), _PSI / bound**2)
    exponents = up - down
    peak = exponents.max(axis=-1, keepdims=True)
    mean = np.exp(exponents - peak).mean(axis=-1)
    found: Floats = np.log(mean) + peak[..., 0]
    return found


def interval(
    count: int, total: float, squares: float, bounds: tuple[float, float], alpha: float = ALPHA
) -> Interval:
    """Return the mean of X so far with its interval: it holds at all times together, by 1 − α.

    Parameters
    ----------
    count, total, squares : the number of X, ΣXₜ and Σ(Xₜ − X̂ₜ)².
    bounds : (c, d), so that −c ≤ Xₜ − X̂ₜ ≤ d.
    alpha : the probability that the interval ever misses, in (0, 1).

    >>> found = interval(400, 40.0, 100.0, (1.0, 1.0))
    >>> [round(value, 3) for value in found]
    [0.1, -0.002, 0.202]
    """
    if not count:
        return Interval(0.0, -np.inf, np.inf)
    mean, needed = total / count, np.log(2.0 / alpha)
    low = mean - _margin(squares, bounds[0], needed) / count
    high = mean + _margin(squares, bounds[1], needed) / count
    return Interval(mean, float(low), float(high))


def _margin(squares: float, bound: float, needed: float) -> float:
    """Return how far a sum must be above its mean for that much evidence."""
    low, high = 0.0, (needed + np.log(len(_U)) + squares * _PSI[0] / bound**2) * bound / _U[0]
    for _ in range(_SPREAD):
        middle = (low + high) / 2
        if log_evidence(middle, squares, bound) < needed:
            low = middle
        else:
            high = middle
    return float(high)


_HIGHEST = 0.5  # of a guess: it bounds how far one session can move the sum
_WEIGHT = 4.0  # of the common rate in a guess, in sessions


def guesses(hits: ArrayLike, sessions: ArrayLike) -> Floats:
    """Return what is guessed of the next session of each policy, from those before it.

    The last axis has the two policies. A guess is the rate of the policy so far, pulled to that of
    both, and at most ½.

    >>> guesses([0, 0], [0, 0]).tolist(), guesses([30, 10], [100, 100]).round(2).tolist()
    ([0.5, 0.5], [0.3, 0.1])
    """
    won, count = np.asarray(hits, float), np.asarray(sessions, float)
    both = (won.sum(axis=-1, keepdims=True) + 0.5) / (count.sum(axis=-1, keepdims=True) + 1.0)
    found: Floats = np.minimum((won + _WEIGHT * both) / (count + _WEIGHT), _HIGHEST)
    return found


def bounds(shares: tuple[float, float]) -> tuple[float, float]:
    """Return how far a score may be below its guess, and how far above.

    >>> [round(bound, 3) for bound in bounds((0.95, 0.05))]
    [20.0, 10.0]
    """
    first, second = shares
    return max(1 / second, _HIGHEST / first), max(1 / first, _HIGHEST / second)


class Difference:
    """The difference of the hit rates of two policies (first − second), session by session.

    A session says X = ŷ₁ − ŷ₂ ± (y − ŷ) / share: the guessed difference, corrected by what was seen
    and weighted by how improbable the policy was. Its mean is the difference, whatever is guessed
    (augmented inverse propensity weighting, Robins, Rotnitzky and Zhao 1994).

    Assumptions: chance alone decides which policy a session gets, with the known `shares`, and what
    one session does says nothing about the policy that another one got. Hit rates may differ from
    session to session and change while a model learns.

    Parameters
    ----------
    shares : the probabilities of the two policies; they sum to 1.
    shape : of arrays, to count many differences at once; () is one.

    >>> seen = Difference((0.5, 0.5))
    >>> for number in range(400):
    ...     seen.add(hit=number % 3 == 0 and number % 2 == 0, second=number % 2 == 1)
    >>> [round(value, 2) for value in seen.interval()]
    [0.33, 0.2, 0.47]
    """

    def __init__(self, shares: tuple[float, float], shape: tuple[int, ...] = ()) -> None:
        self.shares = shares
        self.hits, self.sessions = np.zeros((*shape, 2)), np.zeros((*shape, 2))
        self.total, self.squares = np.zeros(shape), np.zeros(shape)

    def add(self, *, hit: ArrayLike, second: ArrayLike) -> None:
        """Count a session of the first or the second policy."""
        of_second, y = np.asarray(second, bool), np.asarray(hit, float)
        guess = guesses(self.hits, self.sessions)
        own = np.where(of_second, guess[..., 1], guess[..., 0])
        weight = np.where(of_second, -1.0 / self.shares[1], 1.0 / self.shares[0])
        error = (y - own) * weight
        self.total = self.total + (guess[..., 0] - guess[..., 1] + error)
        self.squares = self.squares + error**2
        which = np.stack([~of_second, of_second], axis=-1)
        self.hits = self.hits + which * y[..., None]
        self.sessions = self.sessions + which

    @property
    def count(self) -> int:
        """The number of sessions of both."""
        return int(self.sessions.sum(axis=-1).max(initial=0))

    def interval(self, alpha: float = ALPHA) -> Interval:
        """Return the difference, averaged over the sessions so far, with its interval."""
        return interval(
            self.count, float(self.total), float(self.squares), bounds(self.shares), alpha
        )

    def p_value(self) -> float:
        """Return a p-value of "no difference" that holds whenever it is looked at."""
        below, above = bounds(self.shares)
        found = max(
            float(log_evidence(self.total, self.squares, below)),
            float(log_evidence(-self.total, self.squares, above)),
        )
        return float(min(1.0, 2.0 * np.exp(-found)))

    def grow(self, without: list[int]) -> None:
        """Add a new difference at the end of the last axis, then remove some places of it."""
        for name in ("hits", "sessions"):
            old = getattr(self, name)
            new = np.concatenate([old, np.zeros((*old.shape[:-2], 1, 2))], axis=-2)
            setattr(self, name, np.delete(new, without, axis=-2))
        for name in ("total", "squares"):
            old = getattr(self, name)
            new = np.concatenate([old, np.zeros((*old.shape[:-1], 1))], axis=-1)
            setattr(self, name, np.delete(new, without, axis=-1))

    def state(self) -> dict[str, Any]:
        """Return all of it, as JSON can say it."""
        return {
            "shares": list(self.shares),
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Difference":
        """Restore what `state` returned."""
        self = cls((state["shares"][0], state["shares"][1]))
        for name in _ARRAYS:
            setattr(self, name, np.array(state[name], float))
        for name in ("hits", "sessions"):  # an empty list does not say that its rows have two
            setattr(self, name, getattr(self, name).reshape(*self.total.shape, 2))
        return self


_ARRAYS = ("hits", "sessions", "total", "squares")


WINDOW = 1000
KEPT = 5


class Watch:
    """Tests whether a policy (the first) is worse than a control (the second).

    Parameters
    ----------
    shares : the probabilities of the two for a session.
    alpha : probability of ever raising a false alarm, in (0, 1).
    window : sessions between two tests, at least 1.
    shape : of arrays, to watch many runs at once; () is one.

    >>> watch = Watch((0.5, 0.5))
    >>> for number in range(300):
    ...     watch.add(hit=number % 2 == 1, second=number % 2 == 1)
    >>> bool(watch.alarm), Watch((0.5, 0.5)).alarm.tolist()
    (True, False)
    """

    def __init__(
        self,
        shares: tuple[float, float],
        *,
        alpha: float = ALPHA,
        window: int = WINDOW,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.shares, self.alpha, self.window, self.shape = shares, alpha, window, shape
        self.sessions = 0
        self.tests: list[int] = []  # their numbers, from 1
        self._seen = Difference(shares, (*shape, 0))

    def add(self, *, hit: ArrayLike, second: ArrayLike) -> None:
        """Count a session."""
        if self.sessions % self.window == 0:
            self._begin()
        self._seen.add(hit=np.asarray(hit)[..., None], second=np.asarray(second)[..., None])
        self.sessions += 1

    @property
    def evidence(self) -> Floats:
        """The logarithm of the strongest evidence for "worse", less what its test needs."""
        if not self.tests:
            return np.full(self.shape, -np.inf)
        above: Floats = self._evidence().max(axis=-1)
        return above

    def _evidence(self) -> Floats:
        numbers = np.array(self.tests, float)
        found = log_evidence(-self._seen.total, self._seen.squares, bounds(self.shares)[1])
        above: Floats = found - np.log(numbers * (numbers + 1) / self.alpha)
        return above

    @property
    def alarm(self) -> NDArray[np.bool_]:
        """Whether the policy is worse, at the level `alpha`."""
        worse: NDArray[np.bool_] = self.evidence >= 0.0
        return worse

    @property
    def difference(self) -> float:
        """The difference of the hit rates in the test with the strongest evidence; of one run."""
        if not self.tests:
            return 0.0
        at = int(self._evidence().argmax(axis=-1))
        return float(self._seen.total[at] / self._seen.sessions[at].sum())

    def state(self) -> dict[str, Any]:
        """Return all of it, as JSON can say it."""
        fields = {"alpha": self.alpha, "window": self.window, "seen": self._seen.state()}
        return {**fields, "sessions": self.sessions, "tests": list(self.tests)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Watch":
        """Restore what `state` returned."""
        seen = Difference.from_state(state["seen"])
        self = cls(seen.shares, alpha=state["alpha"], window=state["window"])
        self.sessions, self.tests = state["sessions"], list(state["tests"])
        self._seen = seen
        return self

    def _begin(self) -> None:
        """Begin a test, and end the oldest but the first if there are too many."""
        self.tests.append(self.sessions // self.window + 1)
        ended = [1] if len(self.tests) > KEPT + 1 else []
        self.tests = [number for at, number in enumerate(self.tests) if at not in ended]
        self._seen.grow(ended)
