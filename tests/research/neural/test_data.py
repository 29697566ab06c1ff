"""What may be learnt from: by the clock, and what is held out."""

import numpy as np
import pytest

from nextquery import ArmPool
from nextquery.errors import InvalidInput
from nextquery.research.neural.data import TrainingData
from nextquery.sessions import Sessions
from tests.research.neural.world import DAY, pool_of, ring


def test_only_what_is_dated_before() -> None:
    """Day 100 begins at its first query; the item of the last day does not exist."""
    sessions = ring(150)
    arms = sessions.arms.copy()
    arms[-1] = 30
    pool = pool_of(sessions._replace(arms=arms), arms=31)
    data = TrainingData.of(pool, until=100 * DAY + 120.0)  # within a session
    assert data.knows_until is not None
    assert 100 * DAY + 60 < data.knows_until <= 100 * DAY + 120
    assert "query 30" not in data.texts
    assert data.hidden == 49
    assert data.training.size + data.validation.size == 101
    begun = data.validation.asked[data.validation.offsets[:-1]].min()
    assert data.training.asked.max() < begun
    whole = TrainingData.of(pool)
    assert whole.texts[-1] == "query 30"
    assert whole.knows_until is not None
    assert whole.knows_until > sessions.asked.max()


def test_what_the_pool_holds_out_is_left_out_unless_a_date_is_given() -> None:
    pool = pool_of(ring(60))
    assert pool.origin is not None
    object.__setattr__(pool.origin, "for_replays", 20)
    assert TrainingData.of(pool).hidden == 20
    assert TrainingData.of(pool, hold_out=25).hidden == 25
    assert TrainingData.of(pool, until=50 * DAY).hidden == 10


def test_a_session_that_goes_on_is_known_only_so_far() -> None:
    """Session 0 goes on when the validation sessions have begun."""
    rows = [[0, 1, 2, 3]] + [[number % 5, 5] for number in range(30)]
    asked = [1.0, 2.0, 10_000.0, 10_001.0]
    asked += [100.0 * day + step for day in range(1, 31) for step in (0, 1)]
    sessions = Sessions.of(rows)._replace(asked=np.array(asked))
    sessions = sessions._replace(times=sessions.asked[sessions.offsets[:-1]])
    data = TrainingData.of(pool_of(sessions, arms=6))
    assert data.training.of_number(0).tolist() == [0, 1]


def test_repeats_are_one_query_but_returns_stay() -> None:
    rows = [[0, 0, 1, 0]] * 30 + [[1, 1]] * 30
    data = TrainingData.of(pool_of(Sessions.of(rows), arms=2))
    assert data.knows_until is None
    assert data.training.of_number(0).tolist() == [0, 1, 0]
    assert data.training.size + data.validation.size == 30


def test_logs_that_cannot_be_learnt_from() -> None:
    with pytest.raises(InvalidInput, match="no sessions to learn from"):
        TrainingData.of(ArmPool.from_vectors(["a"], [[1.0]]))
    with pytest.raises(InvalidInput, match="at least 20 sessions"):
        TrainingData.of(pool_of(ring(19)))
    with pytest.raises(InvalidInput, match="nothing in this log is dated before --until"):
        TrainingData.of(pool_of(ring()), until=0.0)
    with pytest.raises(InvalidInput, match="no 'until'"):
        TrainingData.of(pool_of(Sessions.of([[0, 1]] * 30), arms=2), until=5.0)
