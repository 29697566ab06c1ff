"""A person's own past against counting by hand, and that two people share nothing."""

import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.memory import Key, OwnPast, People, own
from tests.memory.by_hand import ARMS

KEYS = st.one_of(st.integers(0, ARMS - 1), st.sampled_from(["mine", "other", "third", "fourth"]))
VISITS = st.lists(st.lists(KEYS, min_size=1, max_size=6), max_size=8)
"""What one person asks, session by session: arms, and texts that are not arms."""


class Step(NamedTuple):
    """A query of a person."""

    key: Key
    after: Key | None
    time: float


def steps(visits: list[list[Key]], start: float = 0.0) -> list[Step]:
    """Return the queries one by one, a second apart."""
    found: list[Step] = []
    for visit in visits:
        before: Key | None = None
        for key in visit:
            found.append(Step(key, before, start + len(found) + 1.0))
            before = key
    return found


def vector_of(key: Key) -> np.ndarray | None:
    """Return a vector for a text; arms have none of their own."""
    return np.full(3, len(key), np.float32) if isinstance(key, str) else None


def fill(past: OwnPast, visits: list[list[Key]]) -> OwnPast:
    """Let a person ask all this."""
    for step in steps(visits):
        past.add(step.key, time=step.time, vector=vector_of(step.key), after=step.after)
    return past


class ByHand:
    """What a past with room for `most` queries must know."""

    def __init__(self, most: int) -> None:
        self.most, self.sessions = most, 0
        self.times: Counter[Key] = Counter()
        self.last: dict[Key, float] = {}
        self.session: dict[Key, int] = {}
        self.follows: dict[Key, Counter[Key]] = {}

    def add(self, step: Step) -> None:
        self.sessions += step.after is None
        if step.key == step.after:
            return
        self.times[step.key] += 1
        self.last[step.key], self.session[step.key] = step.time, self.sessions
        self.follows.setdefault(step.key, Counter())
        if step.after is not None and step.after in self.times:
            self.follows[step.after][step.key] += 1
        if len(self.times) > self.most:
            self._forget(min(self.times, key=lambda key: (self._worth(key), self.last[key])))

    def _worth(self, key: Key) -> float:
        since = self.sessions - self.session[key]
        return round(math.log1p(self.times[key]) - 0.5 * math.log1p(since), 9)

    def _forget(self, key: Key) -> None:
        for table in (self.times, self.last, self.session, self.follows):
            del table[key]


def assert_equal(past: OwnPast, hand: ByHand) -> None:
    assert past.sessions == hand.sessions
    assert {key: query.times for key, query in past.queries.items()} == dict(hand.times)
    assert {key: query.last for key, query in past.queries.items()} == hand.last
    assert {key: query.session for key, query in past.queries.items()} == hand.session
    assert {key: dict(query.follows) for key, query in past.queries.items()} == hand.follows


@pytest.mark.parametrize("most", [3, 6, 500])
@given(visits=VISITS)
def test_a_past_is_counting(most: int, visits: list[list[Key]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "MOST_OWN", most)
        past, hand = OwnPast(), ByHand(most)
        for step in steps(visits):
            past.add(step.key, time=step.time, vector=vector_of(step.key), after=step.after)
            hand.add(step)
            assert_equal(past, hand)
            assert len(past.queries) <= most


def test_at_most_500_and_the_one_worth_least_goes() -> None:
    past, hand = OwnPast(), ByHand(500)
    rng = np.random.default_rng(0)
    for at, arm in enumerate((rng.zipf(1.2, 3000) % 900).tolist()):
        step = Step(arm, None if at % 4 == 0 else -1, float(at))
        past.add(step.key, time=step.time, after=step.after)
        hand.add(step)
    assert len(past.queries) == 500
    assert_equal(past, hand)


def test_at_most_twenty_next_queries_are_kept_the_newest_always() -> None:
    past = OwnPast()
    for arm in range(1, 40):
        past.add(0, time=0.0)
        past.add(arm, time=0.0, after=0)
        past.add(0, time=0.0)
        past.add(1, time=0.0, after=0)
        assert arm in past.queries[0].follows
        assert len(past.queries[0].follows) <= 20
    assert past.queries[0].follows[1] == 40


def test_a_text_gets_a_number_that_no_other_ever_had() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "MOST_OWN", 2)
        past = OwnPast()
        for text in "abcabc":
            past.add(text, time=0.0, vector=np.ones(2, np.float32))
    numbers = [query.number for query in past.queries.values()]
    assert past.numbers == 6  # each was forgotten before it came again
    assert numbers == [4, 5]


def contents(people: People) -> dict[str, object]:
    """Return all that people know, comparable."""
    found: dict[str, object] = {}
    for name in ("ann", "bob"):
        past = people.of(name)
        if past is not None:
            rows = [
                (key, *query[:4], dict(query.follows), None if query[5] is None else [*query[5]])
                for key, query in past.queries.items()
            ]
            found[name] = (past.sessions, past.numbers, rows)
    return found


def tell(people: People, name: str, visits: list[list[Key]], start: float = 0.0) -> None:
    """Let a person of several ask all this."""
    for step in steps(visits, start):
        people.add(name, step.key, time=step.time, vector=vector_of(step.key), after=step.after)


@given(VISITS, VISITS)
def test_two_people_share_nothing(anns: list[list[Key]], bobs: list[list[Key]]) -> None:
    both, alone = People(), People()
    for ann, bob in zip([*anns, []], [*bobs, []], strict=False):
        tell(both, "ann", [ann])
        tell(both, "bob", [bob])
        tell(alone, "ann", [ann])
    assert contents(both).get("ann") == contents(alone).get("ann")
    assert both.queries == sum(
        len(past.queries) for past in map(both.of, ("ann", "bob")) if past is not None
    )


@given(VISITS, VISITS, VISITS)
def test_a_copy_is_independent_both_ways(
    first: list[list[Key]], second: list[list[Key]], third: list[list[Key]]
) -> None:
    people = People()
    tell(people, "ann", first)
    tell(people, "bob", second)
    copy, then = people.copy(), contents(people)
    tell(copy, "ann", third, 100.0)
    assert contents(people) == then
    of_copy = contents(copy)
    tell(people, "ann", second, 200.0)
    tell(people, "bob", third, 200.0)
    assert contents(copy) == of_copy
    again = copy.copy()  # a copy of a copy, while the first two still share bob
    tell(copy, "bob", first, 300.0)
    assert contents(again) == of_copy


@given(VISITS, VISITS, VISITS)
def test_saved_people_go_on_exactly(
    first: list[list[Key]], second: list[list[Key]], third: list[list[Key]]
) -> None:
    people = People()
    tell(people, "bob", first)
    tell(people, "ann", second)
    again = People.from_state(people.state())
    assert contents(again) == contents(people)
    assert again.queries == people.queries
    for twin in (people, again):
        tell(twin, "ann", third, 100.0)
    assert contents(again) == contents(people)
    one, two = people.state(), again.state()
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_nobody_has_an_empty_state() -> None:
    assert People().state() == {}
    assert len(People.from_state({})) == 0
