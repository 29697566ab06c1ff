"""The log of a stream, by the clock: what is known at the start, what is played, what is scored."""

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.memory.memory import SESSIONS
from nextquery.sessions import Ids, Sessions
from nextquery.warm_start import Steps, places_with_next


class StreamSpan(NamedTuple):
    """Which part of the log to use; see `StreamOptions`."""

    sessions: int
    since: str | None
    warm: int
    until: str | None = None


class Stream(NamedTuple):
    """The whole log, and the places of its queries that play a part.

    `live` is every query since the start, in order of time, and `scored` are the steps whose answer
    counts. `known` is the log before the start; the places of its queries in the whole log are
    `known_places`. `steps` are the steps of the warm start and of `live`, in order of time.
    """

    past: SessionMemory
    start: float
    known: Sessions
    known_places: Ids
    warm: int
    live: Ids
    scored: Ids
    steps: Steps

    @classmethod
    def of(cls, sessions: Sessions, span: StreamSpan, arms: int) -> "Stream":
        """Return the stream of a log."""
        check_timed(sessions)
        if span.until is not None:
            sessions = sessions.before(unix_time(span.until, "until"))
        merged = sessions.without_repeats()
        _check_order(merged)
        past = SessionMemory(merged.in_order_of_time())
        asked = past.sessions.asked
        scored = _scored(past, span)
        start = float(asked[scored].min())
        live = np.flatnonzero(asked >= start)
        live = live[np.argsort(past.positions[live])]
        places = np.flatnonzero(asked < start)
        known = past.sessions.before(start)
        # Only the newest sessions of a very long log are remembered, as served.
        cut = int(known.offsets[max(0, known.size - SESSIONS)])
        known, places = known.newest(SESSIONS), places[cut:]
        earlier = Steps.newest(SessionMemory(known), span.warm, arms, memory=False)
        has_next = live[np.isin(live, places_with_next(past))]
        steps = Steps.of(past, np.concatenate([places[earlier.places], has_next]), arms)
        return cls(past, start, known, places, span.warm, live, scored, steps)

    def warm_places(self, *, memory: bool) -> Ids:
        """Return the places of the steps that a policy's warm start uses, with or without memory.

        With one, the first steps of the log only fill it.
        """
        steps = Steps.newest(self.known_past, self.warm, self.past.arms, memory=memory)
        return self.known_places[steps.places]

    @property
    def live_steps(self) -> Steps:
        """The steps since the start."""
        first = int(np.searchsorted(self.past.sessions.asked[self.steps.places], self.start))
        return self.steps.take(slice(first, None))

    @property
    def scored_steps(self) -> Ids:
        """The scored steps in order of time."""
        return self.steps.places[np.isin(self.steps.places, self.scored)]

    def session_of(self, places: Ids) -> Ids:
        """Return the number of the session of each place."""
        return np.searchsorted(self.past.sessions.offsets, places, side="right") - 1

    def people_of(self, places: Ids) -> Ids:
        """Return the number of the person of each place; without people, of its session."""
        sessions, people = self.session_of(places), self.past.sessions.people
        if not len(people):
            return sessions
        return np.where(people[sessions] < 0, people.max() + 1 + sessions, people[sessions])

    @property
    def known_past(self) -> SessionMemory:
        """What is known at the start, as a memory."""
        return SessionMemory(self.known)


def check_timed(sessions: Sessions) -> None:
    """Raise an error unless the time of every query is known."""
    if not sessions.timed:
        raise InvalidInput(
            "the stream goes by the clock, and this pool does not have the time of every query: it "
            "was made from a log without times. Make it again with nextquery ingest (--time names "
            "the column), or leave the stream out (--protocol anchored; in reproduce, --stream 0)."
        )


def _scored(past: SessionMemory, span: StreamSpan) -> Ids:
    """Return the steps whose answer is dated at or after the time that scoring starts."""
    rows = past.sessions
    places = places_with_next(past)
    if not len(places):
        raise InvalidInput(
            "no session of this log has a next query"
            + ("" if span.until is None else f" dated before {span.until}")
            + ", so there is nothing to score. Use sessions of at least two queries."
        )
    if span.since is not None:
        since = unix_time(span.since, "since")
    else:
        begun = np.sort(rows.asked[rows.offsets[:-1][rows.lengths > 1]])
        since = float(begun[max(0, len(begun) - span.sessions)])
    scored = places[rows.asked[places + 1] >= since]
    if not len(scored):
        newest = datetime.fromtimestamp(float(rows.asked.max()), UTC).date()
        raise InvalidInput(
            f"no next query is dated {span.since} or later; the newest query of this log"
            + ("" if span.until is None else f" before {span.until}")
            + f" is of {newest}. Pass an earlier date."
        )
    return scored


def _check_order(sessions: Sessions) -> None:
    """Refuse a session that goes back in time: its next query would be known too early."""
    within = np.ones(len(sessions.arms), bool)
    within[sessions.offsets[:-1][sessions.lengths > 0]] = False
    back = np.flatnonzero(within[1:] & (np.diff(sessions.asked) < 0))
    if len(back):
        session = int(np.searchsorted(sessions.offsets, back[0], side="right")) - 1
        raise InvalidInput(
            f"session {session} goes back in time: {sessions.of_number(session).tolist()[:5]} was "
            "asked in another order. Pass the queries of a session in order of time, as ingest "
            "writes them."
        )


def unix_time(date: str, name: str) -> float:
    """Return the Unix time of a date, in UTC unless it names its own zone.

    >>> unix_time("1970-01-02", "since")
    86400.0
    """
    try:
        time = datetime.fromisoformat(date)
    except ValueError:
        raise InvalidInput(f"{name} must be a date like 2018-01-01; received {date!r}.") from None
    return (time.replace(tzinfo=UTC) if time.tzinfo is None else time).timestamp()
