"""Read an export of the service's log: what each session asked, was shown, and accepted."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from nextquery.errors import InvalidInput

_COLUMNS = {
    "position": "position",
    "time": "epoch(time)",
    "session_id": "session_id",
    "query": "query",
    "state": "state",
    "text": "text",
    "accepted": "accepted",
    "clicked": "epoch(clicked)",
}
_ROWS = 10_000  # read at once
_EXPORT = "nextquery export --format parquet --out FILE writes one"


class Entry(NamedTuple):
    """One recommendation of a decision, in the order of `_COLUMNS`."""

    position: int
    time: float
    session: str
    query: str
    state: str
    text: str
    accepted: bool
    clicked: float | None


@dataclass
class Visit:
    """A session: its queries as arms, when each was known, and what was shown at each.

    `accepted` says of each query whether it was a recommendation that was accepted; `shown` has
    what else was recommended at it.
    """

    arms: list[int] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    shown: list[list[int]] = field(default_factory=list)
    pending: tuple[int, float] | None = None

    def add(self, arm: int, time: float, shown: list[int], *, accepted: bool = False) -> None:
        """Add a query; one that repeats the query just before it is the same."""
        if self.arms and self.arms[-1] == arm:
            self.shown[-1] += shown
            self.accepted[-1] |= accepted
            return
        self.arms.append(arm)
        self.asked.append(max([time, *self.asked[-1:]]))  # a late click is known late
        self.accepted.append(accepted)
        self.shown.append(shown)

    def settle(self) -> None:
        """Add an accepted recommendation that did not run as a query of its own."""
        if self.pending is not None:
            self.add(*self.pending, [], accepted=True)
            self.pending = None


class Read(NamedTuple):
    """The visits of an export, and how many of its queries are no arms of the pool."""

    visits: list[Visit]
    unknown: int


def visits_of(
    path: str | os.PathLike[str], find: Callable[[str], int | None], until: float | None
) -> Read:
    """Return what every session asked, was shown and accepted, as known at `until` (None: now).

    `find` returns the arm of a query; others are left out.
    """
    known: dict[str, int | None] = {}
    visits: dict[str, Visit] = {}
    unknown = 0

    def arm_of(text: str) -> int | None:
        if text not in known:
            known[text] = find(text)
        return known[text]

    for _, rows in groupby(entries(path), key=lambda entry: entry.position):
        slate = list(rows)
        first, accepted = slate[0], [entry for entry in slate if entry.accepted]
        if until is not None:
            if first.time >= until:
                continue
            accepted = [entry for entry in accepted if (entry.clicked or entry.time) < until]
        visit, arm = visits.setdefault(first.session, Visit()), arm_of(first.query)
        chosen = visit.pending is not None and visit.pending[0] == arm
        if chosen:
            visit.pending = None
        visit.settle()
        unknown += arm is None
        shown = [] if first.state == "undelivered" else slate
        others = [arm_of(entry.text) for entry in shown if entry not in accepted]
        if arm is not None:
            arms = [other for other in others if other is not None]
            visit.add(arm, first.time, arms, accepted=chosen)
        for entry in accepted:
            taken = arm_of(entry.text)
            if taken is not None:
                visit.pending = (taken, entry.clicked or entry.time)
    for visit in visits.values():
        visit.settle()
    return Read(list(visits.values()), unknown)


def entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """Yield the entries of all decisions, in the order of the log."""
    import duckdb  # slow to import

    with duckdb.connect() as connection:
        try:
            found = connection.execute("DESCRIBE FROM read_parquet(?)", [str(path)]).fetchall()
        except duckdb.Error as error:
            reason = str(error).split("\n")[0]
            raise InvalidInput(
                f"{path} is not an export of the service's log: {reason}. {_EXPORT}."
            ) from None
        missing = [name for name in _COLUMNS if name not in {row[0] for row in found}]
        if missing:
            raise InvalidInput(
                f"{path} is not an export of the service's log: it has no column {missing[0]!r}. "
                f"{_EXPORT}."
            )
        rows = connection.execute(
            f"SELECT {', '.join(_COLUMNS.values())} FROM read_parquet(?) ORDER BY position, "
            "ordinal",
            [str(path)],
        )
        while part := rows.fetchmany(_ROWS):
            yield from (Entry(*_checked(row, path)) for row in part)


def _checked(row: tuple[Any, ...], path: Any) -> tuple[Any, ...]:
    if any(value is None for value in row[:-1]):
        raise InvalidInput(
            f"{path} is damaged: the entry at position {row[0]} lacks a value. {_EXPORT}."
        )
    return row
