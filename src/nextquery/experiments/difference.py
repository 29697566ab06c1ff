"""The difference of two hit rates, when chance decides which policy a session gets."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nextquery.experiments.sequential import ALPHA, Floats, Interval, interval, log_evidence

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
