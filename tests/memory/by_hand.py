"""The memory of sessions counted by hand, with loops, and small logs to count in."""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from nextquery.memory import Recalled
from nextquery.sessions import NO_PEOPLE, Sessions

ARMS = 7
DAY = 86_400.0


class Query(NamedTuple):
    """A query of a log: its arm and its time."""

    arm: int
    time: float


Log = list[list[Query]]

_SESSION = st.tuples(
    st.integers(1, 25),  # the time of its first query; ties are frequent
    st.lists(st.tuples(st.integers(0, ARMS - 1), st.integers(0, 6)), min_size=1, max_size=9),
)


def _queries(start: int, rows: list[tuple[int, int]]) -> list[Query]:
    session, time = list[Query](), start
    for arm, pause in rows:
        if not session or session[-1].arm != arm:  # a repeated query is one query
            session.append(Query(arm, float(time)))
        time += pause
    return session


LOGS = st.lists(_SESSION, max_size=8).map(
    lambda rows: sorted([_queries(*row) for row in rows], key=lambda session: session[0].time)
)
"""Logs in order of time, whose sessions overlap, with queries of one time."""
HISTORIES = st.lists(st.integers(0, ARMS), max_size=10)


def as_sessions(log: Log, people: list[int] | None = None, *, timed: bool = True) -> Sessions:
    """Return a log as arrays."""
    sessions = Sessions.of([[query.arm for query in session] for session in log])
    if not timed:
        return sessions
    asked = np.array([query.time for session in log for query in session], np.float64)
    starts = np.array([session[0].time for session in log], np.float64)
    return sessions._replace(
        times=starts,
        asked=asked,
        people=NO_PEOPLE if people is None else np.array(people, np.int64),
    )


def before(log: Log, time: float) -> Log:
    """Return a log without what is dated at or after a time."""
    known = [[query for query in session if query.time < time] for session in log]
    return [session for session in known if session]


def support(log: Log, arm: int, *, now: float, half_life: float | None = None) -> float:
    """Count how often an arm was asked."""
    times = [query.time for session in log for query in session if query.arm == arm]
    return sum(left(time, now, half_life) for time in times)


def left(time: float, now: float, half_life: float | None) -> float:
    """Return what age leaves of a query."""
    return 1.0 if half_life is None else 2.0 ** (-(now - time) / (half_life * DAY))


def match_weights(
    log: Log, history: list[int], *, now: float, half_life: float | None = None
) -> list[float]:
    """Weigh the queries of a session: new ones and rare ones count more."""
    rows = sum(map(len, log))
    weights = []
    for at, arm in enumerate(history):
        rare = math.log((rows + 1) / (1 + support(log, arm, now=now, half_life=half_life)))
        weights.append(math.exp((at + 1 - len(history)) / 1.02) * max(rare, 0.0))
    return weights


def recalled(
    log: Log,
    history: list[int],
    *,
    most: int = 300,
    earlier: int = 50,
    now: float = 0.0,
    half_life: float | None = None,
    weights: list[float] | None = None,
) -> dict[str, dict[int, float]]:
    """Count what is near the newest places of a session's queries."""
    sums: dict[str, Counter[int]] = {name: Counter() for name in Recalled._fields[1:]}
    for number, arm in enumerate(history):
        last = number == len(history) - 1
        places = [
            (query.time, row, at, session)
            for row, session in enumerate(log)
            for at, query in enumerate(session)
            if query.arm == arm
        ]
        places.sort(key=lambda place: place[:3])
        match = 1.0 if weights is None else weights[number]
        for _, _, at, session in places[::-1][: most if last else earlier]:
            for other, query in enumerate(session):
                distance, newest = abs(other - at), max(other, at)
                if not 0 < distance <= 5:
                    continue
                faded = left(session[newest].time, now, half_life)
                weight = faded * match * math.exp(-(distance - 1) / 2.05)
                weight /= math.sqrt(min(newest, 5) + 1)
                sums["near"][query.arm] += faded / distance  # type: ignore[assignment]
                sums["forward" if other > at else "backward"][query.arm] += weight  # type: ignore[assignment]
                if last and other == at + 1:
                    sums["follows"][query.arm] += faded  # type: ignore[assignment]
                    if at and len(history) > 1 and session[at - 1].arm == history[-2]:
                        sums["longer"][query.arm] += faded  # type: ignore[assignment]
    return {name: {arm: float(w) for arm, w in row.items() if w} for name, row in sums.items()}


def as_dicts(found: Recalled) -> dict[str, dict[int, float]]:
    """Return the weights of recalled arms by name and arm, without zeros."""
    arms = found.arms.tolist()
    return {
        name: {arm: w for arm, w in zip(arms, row.tolist(), strict=True) if w}
        for name, row in zip(Recalled._fields[1:], found[1:], strict=True)
    }
