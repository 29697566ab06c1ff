"""What holds for every rival: the clock, what may be recommended, and ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.errors import InvalidInput
from nextquery.memory import SessionMemory
from nextquery.research.rivals import (
    AssociationRules,
    NGram,
    Popularity,
    SequentialRules,
    SKnn,
    Stan,
    Step,
    VariableMarkov,
    VsKnn,
    VStan,
)
from nextquery.research.rivals.registry import RIVALS, rival_named
from nextquery.sessions import Sessions
from tests.few_examples import few
from tests.research.rivals.worlds import ARMS, DAY, World, known_rows, sessions_of, worlds

NEIGHBOURS = (SKnn, VsKnn, Stan, VStan)


@pytest.mark.parametrize("name", RIVALS)
@settings(max_examples=few(30), deadline=None)
@given(world=worlds(), other=st.integers(0, ARMS))
def test_what_is_dated_later_changes_nothing(name: str, world: World, other: int) -> None:
    now, step = world.now, world.step
    ranking = rival_named(name, world.memory).rank(step, ARMS).tolist()
    changed = [
        [(arm, day) if day < now else (other, day + place) for place, (arm, day) in enumerate(row)]
        for row in world.rows
    ]
    for rows in (known_rows(world), changed, [*world.rows, [(other, now), (0, now + 1)]]):
        again = rival_named(name, SessionMemory(sessions_of(rows)))
        assert again.rank(step, ARMS).tolist() == ranking


@pytest.mark.parametrize("name", RIVALS)
@settings(max_examples=few(30), deadline=None)
@given(world=worlds(), m=st.integers(0, ARMS))
def test_what_may_be_recommended(name: str, world: World, m: int) -> None:
    rival, step = rival_named(name, world.memory), world.step
    ranking = rival.rank(step, ARMS).tolist()
    assert len(set(ranking)) == len(ranking)
    assert not set(ranking) & world.excluded
    assert rival.rank(step, m).tolist() == ranking[:m]
    everything = rival.rank(step._replace(returns=True, hidden=()), ARMS).tolist()
    assert [arm for arm in everything if arm not in world.excluded] == ranking


@pytest.mark.parametrize("name", RIVALS)
@settings(max_examples=few(20), deadline=None)
@given(world=worlds())
def test_steps_may_come_in_any_order(name: str, world: World) -> None:
    rival, step = rival_named(name, world.memory), world.step
    ranking = rival.rank(step, ARMS).tolist()
    rival.rank(step._replace(before=len(rival.memory)), ARMS)
    rival.rank(step._replace(before=0), ARMS)
    assert rival.rank(step, ARMS).tolist() == ranking


@pytest.mark.parametrize("name", RIVALS)
def test_nothing_known_is_legal(name: str) -> None:
    for rival in (rival_named(name, []), rival_named(name, [[0, 1], [1, 0]])):
        assert rival.rank(Step(before=0, history=[1]), 5).tolist() == []
        assert set(rival.rank(Step(before=len(rival.memory), history=[]), 5).tolist()) <= {0, 1}
        assert set(rival.rank(Step(before=len(rival.memory), history=[-3, 99]), 5)) <= {0, 1}
    with pytest.raises(InvalidInput, match="m must be a whole number"):
        rival.rank(Step(before=0, history=[1]), -1)


def test_the_longest_memory_decides() -> None:
    """After (1, 2) came 4; after 2 alone mostly 3."""
    ranker = NGram(SessionMemory(Sessions.of([[0, 2, 3], [0, 2, 3], [1, 2, 4]])))
    assert ranker.rank(Step(9, [1, 2]), 5).tolist() == [4, 3]
    assert ranker.rank(Step(9, [2]), 5).tolist() == [3, 4]
    assert ranker.rank(Step(0, [2]), 5).tolist() == []


def test_a_longer_memory_that_says_nothing_new_does_not_count() -> None:
    """After 2 come 3 and 4 alike; after (0, 2) more often 4, by a difference of .059.

    A share is of all followers and one more.
    """
    rows = [[0, 2, 3], [0, 2, 4], [0, 2, 4], [1, 2, 3], [1, 2, 3], [1, 2, 4]]
    memory = SessionMemory(Sessions.of(rows))
    step = Step(len(memory), [0, 2])
    for growth, best, share in (
        (0.05, 4, 2 / 4),
        (0.07, 3, 3 / 7),
    ):
        arms, shares = VariableMarkov(memory, growth=growth).rank_with_shares(step, 1)
        assert arms.tolist() == [best]
        assert shares == pytest.approx([share])


def test_popularity_counts_what_came_before() -> None:
    ranker = Popularity(SessionMemory(Sessions.of([[0, 1, 1], [2, 2, 2]])))
    assert ranker.rank(Step(3, [3]), 5).tolist() == [1, 0]
    assert ranker.rank(Step(6, [2]), 5).tolist() == [1, 0]
    assert ranker.rank(Step(6, [3]), 1).tolist() == [2]


def test_a_neighbour_that_goes_on_later_is_known_only_so_far() -> None:
    """Session 0 is asked on days 1, 2 and 9; on day 5 its last query is unknown."""
    memory = SessionMemory(sessions_of([[(0, 1), (1, 2), (2, 9)], [(0, 5)]]))
    step = Step(memory.position(5 * DAY), [0], time=5 * DAY, session=1)
    for name in ("n-gram", "vmm", "ar", "sr", "s-knn", "vs-knn", "stan", "vstan"):
        assert rival_named(name, memory).rank(step, 5).tolist() == [1]


def test_a_session_is_not_its_own_neighbour() -> None:
    """The running session would recommend its own queries; rules may."""
    memory = SessionMemory(sessions_of([[(0, 1), (1, 2), (0, 3), (4, 9)]]))
    step = Step(memory.position(4 * DAY), [0, 1, 0], session=0, returns=True)
    for kind in NEIGHBOURS:
        assert kind(memory).rank(step, 5).tolist() == []
    assert VsKnn(memory).rank(step._replace(session=None), 5).tolist() == [1]
    assert SequentialRules(memory).rank(step, 5).tolist() == [1]


def test_among_equal_neighbours_the_newest_count() -> None:
    memory = SessionMemory(Sessions.of([[0, 1], [0, 2], [0, 3]]))
    for kind in NEIGHBOURS:
        assert kind(memory, neighbours=2).rank(Step(6, [0]), 5).tolist() == [2, 3]
        assert kind(memory, sample=1).rank(Step(6, [0]), 5).tolist() == [3]


def test_age_counts_only_if_it_is_known() -> None:
    """Two old sessions say 1, a young one says 2."""
    rows = [[(0, 1), (1, 1)], [(0, 1), (1, 1)], [(0, 30), (2, 30)]]
    memory, step = SessionMemory(sessions_of(rows)), Step(6, [0], time=31 * DAY)
    assert Stan(memory).rank(step, 5).tolist() == [2, 1]
    assert Stan(memory).rank(step._replace(time=0.0), 5).tolist() == [1, 2]
    assert Stan(memory, session_days=365).rank(step, 5).tolist() == [1, 2]
    untimed = SessionMemory(Sessions.of([[0, 1], [0, 1], [0, 2]]))
    assert Stan(untimed).rank(step, 5).tolist() == [1, 2]


def test_very_old_sessions_still_count() -> None:
    """After ninety years exp(-age) is 0 for all, but the youngest is still the best."""
    memory = SessionMemory(sessions_of([[(0, 1), (1, 1)], [(0, 3), (2, 3)]]))
    for kind in (Stan, VStan):
        assert kind(memory).rank(Step(4, [0], time=33_000 * DAY), 5).tolist() == [2, 1]


def test_a_head_query_is_looked_up_in_bounded_work() -> None:
    """Only the newest places count, however often a query was asked."""
    rows = [[0, 1]] * 300 + [[0, 2]] * 100
    memory = SessionMemory(Sessions.of(rows))
    step = Step(len(memory), [0])
    assert SequentialRules(memory, places=100).rank(step, 5).tolist() == [2]
    assert AssociationRules(memory, places=100).rank(step, 5).tolist() == [2]
    assert NGram(memory, places=100).rank(step, 5).tolist() == [2]
    assert VariableMarkov(memory, places=100).rank(step, 5).tolist() == [2]
    assert VsKnn(memory, sample=150, neighbours=150).rank(step, 5).tolist() == [2, 1]
    assert Stan(memory, sample=100).rank(step, 5).tolist() == [2]
    assert np.array_equal(VsKnn(memory).rank(step, 1), [1])


def test_neighbours_are_found_by_the_latest_queries_of_a_long_session() -> None:
    """Session 0 shares only the oldest of 25 queries, session 1 the newest."""
    memory = SessionMemory(Sessions.of([[0, 30], [24, 31], list(range(25))]))
    step = Step(len(memory), list(range(25)), session=2)
    for kind in NEIGHBOURS:
        assert kind(memory).rank(step, 5).tolist() == [31]
