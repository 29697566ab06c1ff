"""Which arm is in which segment, and the arms of one segment as a pool to select from."""

import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from nextquery.arms import ArmPool
from nextquery.arms.kernels import Ids
from nextquery.arms.texts import with_any
from nextquery.segments import SEPARATOR, segment_of

_VIEWS = 32  # pools of one segment that are kept


class Segmented:
    """The segments of the arms of a pool (see `nextquery.segments`).

    It is false if no arm has a segment: then nothing needs to be looked up.

    >>> pool = ArmPool.from_vectors(["tea", "de\\x1ftee"], [[1, 0], [0, 1]])
    >>> parts = Segmented(pool)
    >>> parts.inside(np.array([0, 1]), "de").tolist(), parts.arms("").tolist(), len(parts.of("de"))
    ([False, True], [0], 1)
    >>> parts.of("fr") is None
    True
    """

    def __init__(self, pool: ArmPool) -> None:
        self._pool = pool
        self._numbers: dict[str, int] = {"": 0}
        self._codes = self._stored_codes()  # of every arm: the number of its segment
        self._rows = len(self._codes)  # entries in use: arms that are added have room behind them
        for arm in range(self._rows, pool.rows_in_all):
            self.added(arm, pool.texts[arm])
        self._views: OrderedDict[str, tuple[tuple[int, int], ArmPool]] = OrderedDict()
        self._lock = threading.Lock()

    def _stored_codes(self) -> NDArray[np.int32]:
        """Return the numbers of the arms on disk: from the log's, or else from their keys."""
        stored, origin = self._pool.texts.stored, self._pool.origin
        codes = np.zeros(len(stored), np.int32)
        known = 0
        if origin is not None and len(origin.segments):
            numbers = np.array([self._number(name) for name in origin.segment_names], np.int32)
            known = min(len(origin.segments), len(codes))
            codes[:known] = numbers[np.asarray(origin.segments[:known])]
        marked = with_any(stored, SEPARATOR.encode())
        for arm in marked[marked >= known].tolist():
            codes[arm] = self._number(segment_of(stored[arm]))
        return codes

    def _number(self, segment: str) -> int:
        return self._numbers.setdefault(segment, len(self._numbers))

    def __bool__(self) -> bool:
        return len(self._numbers) > 1

    @property
    def names(self) -> list[str]:
        """The segments that have arms, or had; first the one without a name."""
        return list(self._numbers)

    def added(self, arm: int, key: str) -> None:
        """An arm was added to the pool."""
        if arm >= len(self._codes):
            grown = np.zeros(max(arm + 1, 2 * len(self._codes), 64), np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown
        self._codes[arm] = self._number(segment_of(key))
        self._rows = arm + 1

    def inside(self, arms: Ids, segment: str) -> NDArray[np.bool_]:
        """Return whether each arm is in a segment; negative ids, of own queries, always are."""
        codes, number = self._codes[: self._rows], self._numbers.get(segment, -1)
        known = (arms >= 0) & (arms < len(codes))
        here: NDArray[np.bool_] = (arms < 0) | known
        here[known] = codes[arms[known]] == number
        return here

    def arms(self, segment: str) -> Ids:
        """Return all arms of a segment, in order of id; some may have been removed."""
        return np.flatnonzero(self._codes[: self._rows] == self._numbers.get(segment, -1))

    def of(self, segment: str, pool: ArmPool | None = None) -> ArmPool | None:
        """Return a pool in which only the arms of a segment are live; None if it has none.

        Parameters
        ----------
        segment : its name.
        pool : the arms as they were at another time; by default as they are now.
        """
        number = self._numbers.get(segment)
        if number is None:
            return None
        if not self:
            return self._pool if pool is None else pool
        if pool is not None and pool is not self._pool:
            return pool.only(self._codes[: self._rows] == number)
        with self._lock:
            made_from = self._rows, len(self._pool.removed)
            known = self._views.get(segment)
            if known is None or known[0] != made_from:
                here = self._codes[: self._rows] == number
                known = self._views[segment] = made_from, self._pool.only(here)
            self._views.move_to_end(segment)
            while len(self._views) > _VIEWS:
                self._views.popitem(last=False)
            return known[1]
