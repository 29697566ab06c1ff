"""Small random logs with times, and steps in them."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from nextquery.memory import SessionMemory
from nextquery.research.rivals import Step
from nextquery.selection import Candidates
from nextquery.sessions import Sessions

ARMS = 6
DAY = 86_400.0
Row = list[tuple[int, int]]  # the arms of a session, with the days on which they were asked


class World(NamedTuple):
    """Sessions of a log, one of them running: its query number `at` is the current one."""

    rows: list[Row]
    session: int
    at: int
    hidden: list[int]
    returns: bool

    @property
    def now(self) -> int:
        """The day of the current query."""
        return self.rows[self.session][self.at][1]

    @property
    def history(self) -> list[int]:
        """The running session up to the current query."""
        return [arm for arm, _ in self.rows[self.session][: self.at + 1]]

    @property
    def excluded(self) -> set[int]:
        """What must not be recommended."""
        return {*self.hidden, *(self.history[-1:] if self.returns else self.history)}

    @property
    def memory(self) -> SessionMemory:
        """The memory of the whole log."""
        return SessionMemory(sessions_of(self.rows))

    @property
    def step(self) -> Step:
        """The step, with every arm as a candidate, in some order of similarity."""
        alike = np.linspace(0.9, 0.1, ARMS)
        return Step(
            before=sum(day < self.now for row in self.rows for _, day in row),
            history=self.history,
            selected=Candidates(
                np.arange(ARMS)[::-1], np.eye(ARMS, dtype=np.float32), alike, alike
            ),
            hidden=self.hidden,
            time=self.now * DAY,
            session=self.session,
            returns=self.returns,
        )


def sessions_of(rows: list[Row]) -> Sessions:
    """Return the sessions with the time of every query."""
    days = np.array([day for row in rows for _, day in row], np.float64)
    return Sessions.of([[arm for arm, _ in row] for row in rows])._replace(asked=days * DAY)


def known_rows(world: World) -> list[Row]:
    """Return the log without everything dated on the day of the step or later."""
    return [[query for query in row if query[1] < world.now] for row in world.rows]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw up to eight sessions of up to six queries, on few days, so that many share a date."""
    query = st.tuples(st.integers(0, ARMS - 1), st.integers(0, 3))
    rows = []
    for gaps in draw(st.lists(st.lists(query, min_size=1, max_size=6), min_size=1, max_size=8)):
        day, row = draw(st.integers(1, 8)), []
        for arm, gap in gaps:
            day += gap
            row.append((arm, day))
        rows.append(row)
    session = draw(st.integers(0, len(rows) - 1))
    at = draw(st.integers(0, len(rows[session]) - 1))
    hidden = draw(st.lists(st.integers(0, ARMS - 1), max_size=2))
    return World(rows, session, at, hidden, draw(st.booleans()))
