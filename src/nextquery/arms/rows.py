"""Append-only rows: stored parts, which may be memory-mapped, and the rows added since."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nextquery.arms.codes import SMALLEST, Codes
from nextquery.arms.kernels import Ids, Vectors

_PATIENCE = 16  # scans without codes that cost about as much as coding the rows


class Rows:
    """Unit vectors by id. A reader's view stays valid while rows are added.

    >>> rows = Rows(np.eye(2, dtype=np.float32))
    >>> rows.append(np.ones((1, 2), np.float32))
    >>> len(rows), rows.whole().tolist()
    (3, [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    """

    def __init__(
        self,
        stored: Vectors,
        codes: Codes | None = None,
        between: Sequence[tuple[Vectors, Codes | None]] = (),
    ) -> None:
        self.stored = stored
        self._between = list(between)  # more rows that are fixed, each with its codes
        self._fixed = len(stored) + sum(len(rows) for rows, _ in self._between)
        self._codes, self._asked, self._lock = codes, 0, threading.Lock()
        self.added = 0  # rows since then
        self.saved: list[tuple[int, str]] = []  # number of first rows, SHA-256 of their file
        self._buffer = np.empty((0, stored.shape[1]), np.float32)  # with room for more

    def __len__(self) -> int:
        return self._fixed + self.added

    @property
    def dim(self) -> int:
        """The length of a row."""
        return int(self.stored.shape[1])

    def append(self, rows: Vectors) -> None:
        """Add rows at the end."""
        needed = self.added + len(rows)
        if needed > len(self._buffer):
            grown = np.empty((max(needed, 2 * len(self._buffer), 64), self.dim), np.float32)
            grown[: self.added] = self._buffer[: self.added]
            self._buffer = grown
        self._buffer[self.added : needed] = rows
        self.added = needed

    def codes(self) -> list[Codes | None]:
        """Return the coded copy of each segment but the last, for a scan that would use it.

        If none was saved, it is made in memory after the scans without it have cost as much.
        """
        if self._codes is None and len(self.stored) >= SMALLEST:
            with self._lock:
                self._asked += 1
                if self._codes is None and self._asked > _PATIENCE:
                    self._codes = Codes.of(self.stored)
        return [self._codes, *(codes for _, codes in self._between)]

    def copy(self) -> "Rows":
        """Return an independent copy that shares the stored part."""
        twin = Rows(self.stored, self._codes, self._between)
        twin.append(self._buffer[: self.added])
        twin.saved = list(self.saved)
        return twin

    def segments(self) -> list[Vectors]:
        """Return the rows as they are in memory, in order."""
        fixed = (rows for rows, _ in self._between)
        return [self.stored, *fixed, self._buffer[: self.added]]

    def row(self, number: int) -> Vectors:
        """Return a copy of one row."""
        at = number
        for rows in self.segments()[:-1]:
            if at < len(rows):
                return np.array(rows[at], np.float32)
            at -= len(rows)
        return np.array(self._buffer[at], np.float32)

    def whole(self) -> Vectors:
        """Return all rows as one read-only matrix: a view, or a copy if rows were added."""
        parts = [part for part in self.segments() if len(part)]
        rows = parts[0] if len(parts) == 1 else np.concatenate([self.stored[:0], *parts])
        view = rows.view()
        view.flags.writeable = False
        return view


class Part(NamedTuple):
    """Rows of a pool, with the id of the first and the removed rows, counted from the first."""

    rows: Rows
    first: int
    removed: Ids
