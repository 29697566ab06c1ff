"""The memory of earlier sessions against counting by hand."""

from collections import Counter

import numpy as np
import pytest

from nextquery.memory import SessionMemory
from nextquery.sessions import Sessions
from tests.replay.worlds import small_world


@pytest.fixture
def past() -> Sessions:
    return small_world(sessions=60, arms=20)[1]


def test_support_and_counts(past: Sessions) -> None:
    memory = SessionMemory(past, arms=20)
    for before in (0, 7, 100, len(past.arms)):
        counted = Counter(past.arms[:before].tolist())
        assert memory.support(np.arange(20), before).tolist() == [counted[a] for a in range(20)]
        assert memory.counts(before).tolist() == [counted[a] for a in range(20)]


@pytest.mark.parametrize("length", [1, 2])
def test_followers_are_those_of_earlier_sessions(past: Sessions, length: int) -> None:
    memory = SessionMemory(past, arms=20)
    before = int(past.offsets[40])
    seen: dict[tuple[int, ...], Counter[int]] = {}
    for session in range(40):
        queries = past.of_number(session).tolist()
        for end in range(length, len(queries)):
            context = tuple(queries[end - length : end])
            seen.setdefault(context, Counter())[queries[end]] += 1
    for context, following in seen.items():
        assert memory.followers([99, *context], before, memory=length) == following
    assert memory.followers([], before) == {}


def test_together_counts_neighbours_by_distance() -> None:
    past = Sessions(np.array([1, 2, 3, 1]), np.array([0, 3, 4]), np.zeros(2))
    memory = SessionMemory(past, arms=5)
    assert memory.together([1], before=3) == {2: 1.0, 3: 0.5}
    assert memory.together([1, 3], before=3) == {2: 2.0, 3: 0.5, 1: 0.5}
    assert memory.together([4], before=4) == {}
