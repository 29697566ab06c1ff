"""Recalling a person's own queries against merging the log and what came since by hand."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.memory import Key, Memory, Moment, People, own
from nextquery.memory import memory as memory_module
from nextquery.memory.own import NOTHING, Own
from nextquery.sessions import Sessions
from tests.memory.by_hand import ARMS, LOGS, Log, as_sessions, before
from tests.memory.test_own import KEYS, VISITS, steps, tell, vector_of

NAMES = ["ann", "bob"]
NOW = 5000.0
BECOMES = st.dictionaries(
    st.sampled_from(["mine", "other", "third"]), st.sampled_from([None, 0, 3, ARMS + 2])
)
"""What some texts are by now: hidden (None), or arms, which the person may have asked too."""


class Row:
    """What is known of one query."""

    def __init__(self) -> None:
        self.times, self.last, self.session, self.follows = 0, -math.inf, 0, 0


def by_hand(
    log: Log,
    people: list[int],
    visits: list[list[Key]],
    person: str,
    current: Key | None,
    *,
    now: float,
    became: dict[str, int | None],
    most: int,
    kept: int = 500,
) -> list[tuple[Key, float, float, float]]:
    """Return a person's own queries, best first: key, count, recency, how often it followed.

    Of those in the log, only the `kept` best ones are known at its end.
    """
    rows: dict[Key, Row] = {}

    def of(key: Key) -> Key | None:
        return became[key] if isinstance(key, str) and key in became else key

    def note(key: Key, previous: Key | None, time: float, session: int) -> None:
        known = of(key)
        if known is None:
            return
        row = rows.setdefault(known, Row())
        row.times += 1
        row.last, row.session = max(row.last, time), max(row.session, session)
        same = previous is not None and current is not None and of(previous) == of(current)
        row.follows += same or (previous is not None and previous == current)

    sessions = 0
    for session, whose in zip(log, people, strict=True):
        if NAMES[whose] == person:
            sessions += 1
            for at, query in enumerate(session):
                note(query.arm, session[at - 1].arm if at else None, query.time, sessions)
    numbers: dict[Key, int] = {}
    for step in steps(visits):
        if isinstance(step.key, str):
            numbers.setdefault(step.key, len(numbers))

    def order(key: Key) -> tuple[float, float, int]:
        row = rows[key]
        worth = round(math.log1p(row.times) - 0.5 * math.log1p(sessions - row.session), 9)
        return -worth, -row.last, key if isinstance(key, int) else -1 - numbers[key]

    for forgotten in sorted(rows, key=order)[kept:]:
        del rows[forgotten]
    for step in steps(visits):
        sessions += step.after is None
        if step.key != step.after:
            note(step.key, step.after, step.time, sessions)
    rows.pop(current, None)  # type: ignore[arg-type]
    rows.pop(of(current), None) if current is not None else None  # type: ignore[arg-type]
    best = sorted(rows, key=order)[:most]
    return [
        (
            key,
            rows[key].times,
            1 / (1 + math.log1p(max(now - rows[key].last, 0.0) / 3600)),
            rows[key].follows,
        )
        for key in best
    ]


def keyed(found: Own) -> list[tuple[Key, float, float, float]]:
    """Return recalled queries with the texts of private ones."""
    keys = [found.texts.get(id, id) for id in found.ids.tolist()]
    columns = (found.counts.tolist(), found.recency.tolist(), found.follows.tolist())
    return list(zip(keys, *columns, strict=True))


@pytest.mark.parametrize("most", [2, 100])
@given(
    log=LOGS,
    visits=VISITS,
    others=VISITS,
    current=st.none() | KEYS,
    became=BECOMES,
    person=st.sampled_from(NAMES),
    kept=st.sampled_from([1, 3, 500]),
)
def test_log_and_live_are_merged(
    most: int,
    kept: int,
    log: Log,
    visits: list[list[Key]],
    others: list[list[Key]],
    current: Key | None,
    became: dict[str, int | None],
    person: str,
) -> None:
    if isinstance(current, str) and current in became:
        current = became[current]  # the loop knows a query by its arm, and a hidden one not at all
    whose = [number % 2 for number in range(len(log))]
    memory = Memory(as_sessions(log, whose), names=NAMES)
    tell(memory.people, person, visits)
    tell(memory.people, next(name for name in NAMES if name != person), others)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "FROM_OWN", most)
        patch.setattr(own, "MOST_OWN", kept)
        found = memory.own(
            person,
            current,
            previous=visits[-1][-1] if visits else None,
            at=Moment(NOW),
            own_id=lambda text: became.get(text, -1),
        )
    expected = by_hand(
        log, whose, visits, person, current, now=NOW, became=became, most=most, kept=kept
    )
    assert [row[0] for row in keyed(found)] == [row[0] for row in expected]
    for actual, row in zip(keyed(found), expected, strict=True):
        assert actual[1:] == pytest.approx(row[1:])
    private = [id for id in found.ids.tolist() if id < 0]
    assert list(found.texts) == private
    for text, vector in zip(found.texts.values(), found.vectors, strict=True):
        np.testing.assert_array_equal(vector, vector_of(text))
    ids = {text: id for id, text in found.texts.items()}
    newest = {key for key in (visits[-1] if visits else []) if isinstance(key, str)}
    here = {became[text] if text in became else ids.get(text) for text in newest}
    assert set(found.this_session) == here & set(found.ids.tolist())


@given(LOGS, VISITS, st.none() | st.integers(0, ARMS), st.integers(1, 60).map(float))
def test_at_a_moment_of_the_past_only_the_log_before_it_counts(
    log: Log, visits: list[list[Key]], current: int | None, time: float
) -> None:
    whose = [number % 2 for number in range(len(log))]
    memory = Memory(as_sessions(log, whose), names=NAMES)
    tell(memory.people, "ann", visits)
    at = Moment(time, memory.past.position(time))
    found = memory.own("ann", current, at=at, own_id=lambda text: -1)
    known = before(log, time)
    expected = by_hand(
        known, whose[: len(known)], [], "ann", current, now=time, became={}, most=100
    )
    assert [row[0] for row in keyed(found)] == [row[0] for row in expected]
    for actual, row in zip(keyed(found), expected, strict=True):
        assert actual[1:] == pytest.approx(row[1:])


def test_at_most_a_hundred_come_back() -> None:
    memory = Memory(Sessions.of([[*range(300)]])._replace(people=np.array([0])), names=["ann"])
    for number in range(80):
        vector = np.ones(2, np.float32)
        memory.people.add("ann", f"mine {number}", time=float(number), vector=vector)
    found = memory.own("ann", 5, own_id=lambda text: -1)
    assert len(found.ids) == 100
    assert len(found.texts) == 80  # newer sessions than the log's, so they are worth more
    assert found.ids[80:].tolist() == [0, 1, 2, 3, 4, *range(6, 21)]


def test_the_log_has_at_most_five_hundred_queries_of_a_person() -> None:
    """Of the newest two thousand that she asked: the two that she asked often, and new ones."""
    asked = [[0], [450], [450], [450], [450], *([at] for at in range(5, 2500))]
    asked[420] = asked[421] = [450]
    memory = Memory(
        Sessions.of(asked)._replace(people=np.zeros(2500, np.int64)), names=["ann", "bob"]
    )
    found, count = memory.own_log.known("ann", 2398, 2400)
    assert count == 2000
    assert found.ids.tolist() == [450, *range(1901, 2400)]
    assert found.counts.tolist() == [3.0] + [1.0] * 499
    assert not found.follows.any()  # sessions of one query
    assert memory.own_log.known("ann", None, 3)[0].counts.tolist() == [1.0, 2.0]
    assert memory.own_totals() == (1, 500)
    for at in range(9):
        memory.people.add("ann", f"mine {at}", time=float(at))
        memory.people.add("bob", f"his {at}", time=float(at))
        memory.people.add("carl", at, time=float(at))
    assert memory.own_totals() == (3, 518)


@given(log=LOGS, visits=VISITS, most=st.sampled_from([2, 500]))
def test_totals_count_both_memories(log: Log, visits: list[list[Key]], most: int) -> None:
    whose = [number % 3 - 1 for number in range(len(log))]  # every third session is nobody's
    memory = Memory(as_sessions(log, whose), names=NAMES)
    tell(memory.people, "ann", visits)
    asked: dict[str, set[int]] = {"ann": set(), "bob": set()}
    for session, number in zip(log, whose, strict=True):
        if number >= 0:
            asked[NAMES[number]] |= {query.arm for query in session}
    sizes = {name: min(len(arms), most) for name, arms in asked.items()}
    live = memory.people.of("ann")
    sizes["ann"] = min(sizes["ann"] + (0 if live is None else len(live.queries)), most)
    with pytest.MonkeyPatch.context() as patch:
        for module in (own, memory_module):
            patch.setattr(module, "MOST_OWN", most)
        people, queries = memory.own_totals()
    assert people == sum(size > 0 for size in sizes.values())
    assert queries == sum(sizes.values())


def test_somebody_unknown_and_nobody_have_no_past() -> None:
    memory = Memory(as_sessions([], []), names=NAMES)
    options: dict[str, Any] = {"own_id": lambda text: -1}
    assert memory.own(None, 1, **options) is NOTHING
    assert memory.own("eve", 1, **options) is NOTHING
    memory.people.add("ann", 1, time=0.0)
    assert memory.own("ann", 1, **options) is NOTHING  # it is the current query
    assert memory.own("eve", None, **options) is NOTHING


def test_an_unknown_time_has_no_recency_and_harms_no_number() -> None:
    sessions = Sessions.of([[0, 1], [2]])._replace(
        asked=np.array([np.nan, 50.0, np.nan]), people=np.array([0, 0])
    )
    memory = Memory(sessions, names=["ann"])
    found = memory.own("ann", None, at=Moment(50.0), own_id=lambda text: -1)
    assert dict(zip(found.ids.tolist(), found.recency.tolist(), strict=True)) == {
        0: 0.0,
        1: 1.0,
        2: 0.0,
    }
    untimed = Memory(sessions._replace(asked=np.empty(0)), names=["ann"])
    assert not untimed.own("ann", None, at=Moment(50.0), own_id=lambda text: -1).recency.any()


def test_without_a_clock_there_is_no_recency() -> None:
    people = People()
    people.add("ann", 3, time=7.0)
    found = Memory(people=people).own("ann", None, own_id=lambda text: -1)
    assert found.recency.tolist() == [0.0]
    assert found.counts.tolist() == [1.0]
