"""The stream by the clock, against brute force over lists: steps, start, and where answers were."""

from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.research.replay.players import ANSWERS, Stream, StreamSpan, answers_by_kind
from nextquery.sessions import Sessions
from nextquery.warm_start import places_with_next
from tests.few_examples import few
from tests.research.replay.worlds import HOUR, Log, logs

ARMS = 8
Step = tuple[int, int]  # a session and a place in it


def of_places(stream: Stream, places: list[int]) -> list[Step]:
    """Return the session and the place in it, of places in the long row."""
    offsets = stream.past.sessions.offsets.tolist()
    owners = stream.session_of(np.array(places, np.int64)).tolist()
    return [(owner, place - offsets[owner]) for owner, place in zip(owners, places, strict=True)]


def scored_by_hand(log: Log, since: int) -> list[Step]:
    return [(s, at) for s, at in log.steps() if log.rows[s][at + 1][1] >= since]


def since_by_hand(log: Log, sessions: int) -> int:
    """Return when the oldest of the newest sessions with a next query began."""
    begun = sorted(row[0][1] for row in log.rows if len(row) > 1)
    return begun[max(0, len(begun) - sessions)]


def warm_by_hand(log: Log, start: int, warm: int, *, memory: bool) -> list[Step]:
    """The steps before the start, of the newest sessions that had a next query by then."""
    known = [[query for query in row if query[1] < start] for row in log.rows]
    longer = [session for session, row in enumerate(known) if len(row) > 1]
    steps = [(session, at) for session in longer for at in range(len(known[session]) - 1)]
    used = steps[len(steps) // 5 :] if memory else steps
    newest = longer[max(0, len(longer) - warm) :] if warm else []
    return [step for step in used if step[0] in newest]


def by_clock(log: Log, steps: list[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: (log.rows[step[0]][step[1]][1], step))


@settings(max_examples=few(60), deadline=None)
@given(log=logs(), sessions=st.integers(1, 11), warm=st.integers(0, 6))
def test_what_is_played_and_scored_is_what_brute_force_says(
    log: Log, sessions: int, warm: int
) -> None:
    stream = Stream.of(log.sessions, StreamSpan(sessions, None, warm), ARMS)
    log = log.in_order()
    scored = scored_by_hand(log, since_by_hand(log, sessions))
    start = min(log.rows[s][at][1] for s, at in scored)
    assert stream.start == start * HOUR
    assert of_places(stream, stream.scored_steps.tolist()) == by_clock(log, scored)
    live = [
        (s, at) for s, row in enumerate(log.rows) for at, (_, hour) in enumerate(row)
        if hour >= start
    ]  # fmt: skip
    assert of_places(stream, stream.live.tolist()) == by_clock(log, live)
    with_next = [step for step in by_clock(log, live) if step in log.steps()]
    assert of_places(stream, stream.live_steps.places.tolist()) == with_next
    for memory in (False, True):
        steps = of_places(stream, stream.warm_places(memory=memory).tolist())
        assert steps == by_clock(log, warm_by_hand(log, start, warm, memory=memory))
    assert stream.known.arms.tolist() == [a for row in log.rows for a, hour in row if hour < start]
    for at, (session, place) in enumerate(of_places(stream, stream.steps.places.tolist())):
        now = log.rows[session][place][1]
        assert stream.steps.moment(at).time == now * HOUR
        known = [hour for hour, *_ in log.asked() if hour < now]
        assert stream.steps.moment(at).before == len(known)


@settings(max_examples=few(40), deadline=None)
@given(log=logs(), hours=st.integers(0, 30))
def test_since_a_date_is_what_brute_force_says(log: Log, hours: int) -> None:
    date = f"1970-01-{1 + hours // 24:02d}T{hours % 24:02d}:00"
    ordered = log.in_order()
    scored = scored_by_hand(ordered, hours)
    if not scored:
        with pytest.raises(InvalidInput, match="Pass an earlier date"):
            Stream.of(log.sessions, StreamSpan(5, date, 3), ARMS)
        return
    for same in (date, f"{date}+00:00"):
        stream = Stream.of(log.sessions, StreamSpan(5, same, 3), ARMS)
        assert of_places(stream, stream.scored_steps.tolist()) == by_clock(ordered, scored)


def kind_by_hand(log: Log, session: int, at: int) -> str:
    now, answer = log.rows[session][at][1], log.rows[session][at + 1][0]
    if answer in [arm for arm, _ in log.rows[session][: at + 1]]:
        return "return"
    before = [(who, s) for hour, arm, who, s in log.asked() if arm == answer and hour < now]
    me = log.people[session]
    if me >= 0 and any(who == me and s != session for who, s in before):
        return "own"
    return "others" if before else "new"


@settings(max_examples=few(60), deadline=None)
@given(log=logs(), known=st.booleans())
def test_where_answers_were_before_is_what_brute_force_says(log: Log, known: bool) -> None:
    ordered = log.in_order()
    sessions = ordered.sessions
    if not known:
        ordered = ordered._replace(people=[-1] * len(ordered.people))
        sessions = sessions._replace(people=np.empty(0, np.int64))
    past = SessionMemory(sessions)
    kinds = [ANSWERS[kind] for kind in answers_by_kind(past, places_with_next(past))]
    assert kinds == [kind_by_hand(ordered, *step) for step in ordered.steps()]


@settings(max_examples=few(20), deadline=None)
@given(log=logs())
def test_a_repeated_query_is_one_query(log: Log) -> None:
    doubled = Log([[q for query in row for q in (query, query)] for row in log.rows], log.people)
    span = StreamSpan(3, None, 3)
    once, twice = (Stream.of(each.sessions, span, ARMS) for each in (log, doubled))
    for one, other in zip(once.past.sessions, twice.past.sessions, strict=True):
        assert one.tolist() == other.tolist()
    assert once.steps.places.tolist() == twice.steps.places.tolist()


def test_people_and_sessions_of_nobody_are_never_mixed_up() -> None:
    log = Log([[(0, 1), (1, 2)], [(0, 3), (1, 4)], [(2, 5), (1, 6)]], [9, -1, -1])
    stream = Stream.of(log.sessions, StreamSpan(3, None, 0), ARMS)
    assert len(set(stream.people_of(stream.scored_steps).tolist())) == 3
    unknown = log.sessions._replace(people=np.empty(0, np.int64))
    stream = Stream.of(unknown, StreamSpan(3, None, 0), ARMS)
    assert stream.people_of(stream.scored_steps).tolist() == [0, 1, 2]


def test_a_log_without_times_says_what_is_missing() -> None:
    untimed = Sessions(np.array([0, 1]), np.array([0, 2]), np.array([5.0]))
    for sessions in (untimed, untimed._replace(asked=np.array([1.0, np.nan]))):
        with pytest.raises(InvalidInput, match=r"time of every query.*again with nextquery ingest"):
            Stream.of(sessions, StreamSpan(1, None, 0), ARMS)


def test_sessions_that_go_back_in_time_or_have_no_next_query_are_refused() -> None:
    back = Log([[(0, 1), (1, 2)], [(3, 5), (4, 4)]], [-1, -1])
    with pytest.raises(InvalidInput, match="session 1 goes back in time"):
        Stream.of(back.sessions, StreamSpan(1, None, 0), ARMS)
    with pytest.raises(InvalidInput, match="has a next query"):
        Stream.of(Log([[(3, 1), (3, 2)]], [-1]).sessions, StreamSpan(1, None, 0), ARMS)
    with pytest.raises(InvalidInput, match="a date like 2018-01-01; received 'May'"):
        Stream.of(Log([[(3, 1), (4, 2)]], [-1]).sessions, StreamSpan(1, "May", 0), ARMS)


@given(log=logs())
def test_sessions_without_a_start_are_placed_by_their_queries(log: Log) -> None:
    ordered = log.in_order().sessions
    assume(ordered.size > 1)
    bare = Stream.of(ordered._replace(times=np.empty(0)), StreamSpan(2, None, 2), ARMS)
    assert bare.scored.tolist() == Stream.of(ordered, StreamSpan(2, None, 2), ARMS).scored.tolist()


@settings(max_examples=few(20), deadline=None)
@given(log=logs(), until=st.integers(1, 14), warm=st.integers(0, 6))
def test_until_is_a_log_that_ends_there(log: Log, until: int, warm: int) -> None:
    shorter = Log([[query for query in row if query[1] < until] for row in log.rows], log.people)
    kept = [number for number, row in enumerate(shorter.rows) if row]
    shorter = Log([shorter.rows[number] for number in kept], [log.people[n] for n in kept])
    assume(any(a != b for row in shorter.rows for (a, _), (b, _) in pairwise(row)))
    date = datetime.fromtimestamp(until * HOUR, UTC).isoformat()
    cut = Stream.of(log.sessions, StreamSpan(3, None, warm, date), ARMS)
    short = Stream.of(shorter.sessions, StreamSpan(3, None, warm), ARMS)
    assert cut.start == short.start
    assert cut.scored.tolist() == short.scored.tolist()
    assert cut.past.sessions.arms.tolist() == short.past.sessions.arms.tolist()
    assert cut.past.sessions.people.tolist() == short.past.sessions.people.tolist()


def test_until_must_be_a_date_with_something_before_it() -> None:
    sessions = Log([[(0, 5), (1, 6)]], [-1]).sessions
    with pytest.raises(InvalidInput, match="until must be a date like 2018-01-01; received 'now'"):
        Stream.of(sessions, StreamSpan(1, None, 0, "now"), ARMS)
    with pytest.raises(InvalidInput, match="no session of this log has a next query dated before"):
        Stream.of(sessions, StreamSpan(1, None, 0, "1969-01-01"), ARMS)
