"""The queries of live sessions, asked since the log ended, in bounded space.

Every query is one row: the query, then the session's queries before it, newest first. Each entry
links to the arm's previous place, so that all places of an arm can be found, newest first. The
oldest rows are overwritten.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextquery.memory.past import NEAR, NO_MENTIONS, Mentions, decayed, fading
from nextquery.sessions import Floats, Ids
from nextquery.vectors import compiled

_WIDTH = NEAR + 1
_NO_ARM = -1
_NO_PLACES = np.empty(0, np.int64)
ROWS = 200_000


class LiveMemory:
    """Which query followed which in live sessions.

    Parameters
    ----------
    rows : number of newest queries to keep.
    half_life : days after which a query counts half; None: for ever in full.

    >>> memory = LiveMemory()
    >>> memory.add(8, history=[7])
    >>> memory.add(9, history=[7, 8])
    >>> mentions = memory.mentions([7], most=10, earlier=10)
    >>> mentions.arms.tolist(), mentions.near.tolist(), mentions.follows.tolist()
    ([9, 8], [0.5, 1.0], [0.0, 1.0])
    >>> memory.support(np.array([8, 7])).tolist()
    [1.0, 0.0]
    """

    def __init__(self, rows: int = ROWS, half_life: float | None = None) -> None:
        self.rows, self.half_life = rows, half_life
        self.count = 0  # rows ever added
        self._arms = np.full((0, _WIDTH), _NO_ARM, np.int64)
        self._links = np.full((0, _WIDTH), _NO_ARM, np.int64)
        self._times = np.zeros(0)
        self._last: dict[int, int] = {}  # by arm: its newest place, as row × width + column
        self._support, self._asked = np.zeros(0), np.zeros(0)  # by arm; as of the time it was asked

    def add(self, arm: int, history: Sequence[int], time: float = 0.0) -> None:
        """Record that an arm was asked; `history` has the session's earlier arms, newest last."""
        if arm >= len(self._support):
            size = max(64, 2 * len(self._support), arm + 1)
            self._support, self._asked = _longer(self._support, size), _longer(self._asked, size)
        self._support[arm] = self._left(arm, time) + 1.0
        self._asked[arm] = max(time, self._asked[arm])
        at = self.count % self.rows
        if at >= len(self._arms):
            self._grow()
        self._times[at] = time
        row = [arm, *list(history)[:-_WIDTH:-1]]
        row += [_NO_ARM] * (_WIDTH - len(row))
        self._arms[at] = row
        for column, entry in enumerate(row):
            if entry != _NO_ARM:
                self._links[at, column] = self._last.get(entry, _NO_ARM)
                self._last[entry] = self.count * _WIDTH + column
        self.count += 1

    def support(self, arms: Ids, now: float | None = None) -> Floats:
        """Return how often each arm was asked, faded as of `now`."""
        if not len(self._support):
            return np.zeros(len(arms))
        known = (arms >= 0) & (arms < len(self._support))
        return np.where(known, self._left(np.where(known, arms, 0), now), 0.0)

    def _left(self, arms: Ids | int, now: float | None) -> Any:
        """Return the support of arms as of `now`."""
        if self.half_life is None or now is None:
            return self._support[arms]
        return self._support[arms] * decayed(self._asked[arms], now, self.half_life)

    def mentions(
        self,
        history: Sequence[int],
        *,
        most: int,
        earlier: int,
        weights: Sequence[float] | None = None,
        now: float | None = None,
    ) -> Mentions:
        """Look up the newest places of a session's queries; see `SessionMemory.mentions`."""
        last = len(history) - 1
        places = [
            self._places(arm, most if number == last else earlier)
            for number, arm in enumerate(history)
        ]
        if not any(map(len, places)):
            return NO_MENTIONS
        place = np.concatenate(places)
        query = np.repeat(np.arange(len(places)), [len(own) for own in places])
        at, column = (place // _WIDTH) % self.rows, place % _WIDTH
        rows = self._arms[at]
        itself = np.flatnonzero(column == 0)  # the query, with what came before it
        of, back = np.nonzero(rows[itself, 1:] != _NO_ARM)
        earlier_arms, after = rows[itself[of], back + 1], np.flatnonzero(column)
        entry = np.concatenate([itself[of], after])  # each found arm's entry of the arrays above
        steps = np.concatenate([-(back + 1), column[after]])
        follows = (query[entry] == last) & (steps == 1)
        longer = follows & (rows[entry, 2] == (history[-2] if last > 0 else _NO_ARM - 1))
        return Mentions.of(
            np.concatenate([earlier_arms, rows[after, 0]]),
            steps,
            follows=follows,
            longer=longer,
            match=np.ones(len(entry)) if weights is None else np.asarray(weights)[query[entry]],
            window=(rows[entry] != _NO_ARM).sum(axis=1),
            faded=fading(self._times, at[entry], now, self.half_life),
        )

    def _places(self, arm: int, most: int) -> Ids:
        """Return the places of an arm, newest first."""
        oldest = max(0, self.count - self.rows) * _WIDTH
        newest = self._last.get(arm, _NO_ARM)
        if newest < oldest:
            return _NO_PLACES
        places = np.empty(min(most, self.count * _WIDTH), np.int64)
        follow = compiled(_follow, brief=True)
        return places[: follow(self._links, newest, oldest, self.rows, places)]

    def _grow(self) -> None:
        size = min(self.rows, max(64, 2 * len(self._arms)))
        self._arms = _longer(self._arms, size, _NO_ARM)
        self._links = _longer(self._links, size, _NO_ARM)
        self._times = _longer(self._times, size)

    def copy(self) -> "LiveMemory":
        """Return an independent copy."""
        twin = LiveMemory(self.rows, self.half_life)
        twin.count, twin._last = self.count, self._last.copy()
        twin._arms, twin._links = self._arms.copy(), self._links.copy()
        twin._support, twin._asked = self._support.copy(), self._asked.copy()
        twin._times = self._times.copy()
        return twin

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the memory as arrays."""
        used = min(self.count, self.rows)
        return {
            "rows": np.array([self.rows, self.count]),
            "arms": self._arms[:used].copy(),
            "links": self._links[:used].copy(),
            "last": np.array(sorted(self._last.items()), np.int64).reshape(-1, 2),
            "support": np.trim_zeros(self._support, "b"),
            "asked": self._asked[: len(np.trim_zeros(self._support, "b"))].copy(),
            "times": self._times[:used].copy(),
            "half_life": np.array([] if self.half_life is None else [self.half_life], np.float64),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> "LiveMemory":
        """Create a memory from a `state`."""
        rows, count = state["rows"].tolist()
        memory = cls(rows)
        memory.count = count
        memory._arms, memory._links = np.array(state["arms"]), np.array(state["links"])
        memory._last = dict(state["last"].tolist())
        memory._support = np.array(state["support"], np.float64)
        memory._asked, memory._times = np.array(state["asked"]), np.array(state["times"])
        memory.half_life = next(iter(state["half_life"].tolist()), None)
        return memory


def _follow(links: Ids, place: int, oldest: int, rows: int, places: Ids) -> int:
    """Fill `places` by following the links from `place`. Returns how many there are."""
    count = 0
    while place >= oldest and place >= 0 and count < len(places):
        places[count] = place
        count += 1
        place = links[(place // links.shape[1]) % rows, place % links.shape[1]]
    return count


def _longer(rows: NDArray[Any], size: int, filler: int = 0) -> NDArray[Any]:
    grown = np.full((size, *rows.shape[1:]), filler, rows.dtype)
    grown[: len(rows)] = rows
    return grown
