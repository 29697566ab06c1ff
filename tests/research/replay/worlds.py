"""Small worlds for replays: sessions that stay near their first query, and random logs."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import nextquery as nq
from nextquery.sessions import Sessions

HOUR = 3600.0
Row = list[tuple[int, int]]  # the arms of a session, with the hours at which they were asked


def small_world(sessions: int = 30, arms: int = 60, dim: int = 6) -> tuple[nq.ArmPool, Sessions]:
    """A pool and sessions of three to six different arms, all near the first one.

    A session begins every minute, and asks every ten seconds. Seven people take turns.
    """
    rng = np.random.default_rng(7)
    pool = nq.ArmPool.from_vectors([f"q{i}" for i in range(arms)], rng.normal(size=(arms, dim)))
    chosen = []
    for _ in range(sessions):
        first = int(rng.integers(arms))
        near, _ = pool.nearest(pool.vectors[first], 15)
        others = rng.choice(near[near != first], int(rng.integers(2, 6)), replace=False)
        chosen.append(np.concatenate([[first], others]))
    offsets = np.concatenate([[0], np.cumsum([len(session) for session in chosen])])
    times = np.arange(sessions, dtype=np.float64) * 60
    asked = np.concatenate([60.0 * i + 10.0 * np.arange(len(s)) for i, s in enumerate(chosen)])
    people = np.arange(sessions) % 7
    return pool, Sessions(np.concatenate(chosen), offsets, times, asked, people)


def returning_world(sessions: int = 60, arms: int = 60) -> tuple[nq.ArmPool, Sessions]:
    """A world whose people ask again what they asked before, and go back within a session."""
    pool, past = small_world(sessions, arms)
    rng, row = np.random.default_rng(9), past.arms.copy()
    for number in range(7, sessions):
        begin, end = past.offsets[number : number + 2]
        row[begin + 1] = row[past.offsets[number - 7]]  # as this person began the last time
        if rng.random() < 0.5:
            row[end - 1] = row[begin]
    return pool, past._replace(arms=row)


class Log(NamedTuple):
    """A log by the clock, with the person of each session; -1: nobody knows."""

    rows: list[Row]
    people: list[int]

    @property
    def sessions(self) -> Sessions:
        """The log as arrays; sessions are not in order of time."""
        hours = np.array([hour for row in self.rows for _, hour in row], np.float64)
        sessions = Sessions.of([[arm for arm, _ in row] for row in self.rows])
        times = np.array([row[0][1] for row in self.rows], np.float64)
        return sessions._replace(
            times=times * HOUR, asked=hours * HOUR, people=np.array(self.people, np.int64)
        )

    def in_order(self) -> "Log":
        """The log as the stream sees it: without repeats in a row, sessions in order of time."""
        rows = [
            [query for at, query in enumerate(row) if at == 0 or row[at - 1][0] != query[0]]
            for row in self.rows
        ]
        order = sorted(range(len(rows)), key=lambda session: rows[session][0][1])
        return Log([rows[session] for session in order], [self.people[s] for s in order])

    def steps(self) -> list[tuple[int, int]]:
        """The session and place of every query that has a next query."""
        return [(s, at) for s, row in enumerate(self.rows) for at in range(len(row) - 1)]

    def asked(self) -> list[tuple[int, int, int, int]]:
        """Hour, arm, person and session of every query."""
        return [
            (hour, arm, self.people[session], session)
            for session, row in enumerate(self.rows)
            for arm, hour in row
        ]


@st.composite
def logs(draw: st.DrawFn, arms: int = 8) -> Log:
    """Draw sessions that overlap in time, with equal times, repeats, and people who come again."""
    query = st.tuples(st.integers(0, arms - 1), st.integers(0, 4))
    row = st.lists(query, min_size=1, max_size=5)
    drawn = draw(st.lists(row, min_size=3, max_size=10).filter(_has_next))
    rows = []
    for queries in drawn:
        hour, own = draw(st.integers(1, 20)), []
        for arm, gap in queries:
            hour += gap
            own.append((arm, hour))
        rows.append(own)
    return Log(rows, [draw(st.integers(-1, 2)) for _ in rows])


def _has_next(rows: list[Row]) -> bool:
    return any(len({arm for arm, _ in row}) > 1 for row in rows)
