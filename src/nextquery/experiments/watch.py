"""The watch of a served policy: has it become worse than the control?

A model that was good for a year and was then misled would hide behind its good average for another
year. So a new test begins every `WINDOW` sessions. The k-th test may err with probability
α/(k(k+1)). These sum to α: a false alarm, at any time and in any of the tests, has probability at
most α. The first test and the newest `KEPT` others go on.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nextquery.experiments.difference import Difference, bounds
from nextquery.experiments.sequential import ALPHA, Floats, log_evidence

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
