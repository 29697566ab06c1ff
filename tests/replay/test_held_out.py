"""Held-out sessions teach the vectors nothing."""

from pathlib import Path

import numpy as np
import pytest

import nextquery as nq
from nextquery import replay
from nextquery.errors import InvalidInput
from nextquery.replay.sessions import draw_anchors
from tests.replay.worlds import small_world


def words() -> tuple[nq.ArmPool, replay.PastSessions]:
    pool, past = small_world()
    texts = [f"word{i % 7} other{i % 5} thing{i}" for i in range(len(pool))]
    return nq.ArmPool.from_vectors(texts, pool.vectors), past


def test_what_the_last_sessions_say_changes_no_vector() -> None:
    pool, past = words()
    first, _, name = replay.refit(pool, past, 10, "lsa")
    shuffled = past.arms.copy()
    start = past.offsets[-11]
    shuffled[start:] = shuffled[start:][::-1]
    second, _, _ = replay.refit(pool, past._replace(arms=shuffled), 10, "lsa")
    assert name == "lsa"
    assert np.array_equal(first.vectors, second.vectors)


def test_sessions_keep_their_queries_under_new_ids() -> None:
    pool, past = words()
    pool.remove([int(past.arms[0])])
    again, moved, _ = replay.refit(pool, past, 10, "lsa")
    gone = pool.texts[int(past.arms[0])]
    before = [pool.texts[arm] for arm in past.arms.tolist()]
    assert [again.texts[arm] for arm in moved.arms.tolist()] == [t for t in before if t != gone]
    assert len(moved.times) == len(past.times)


def test_a_run_started_again_has_the_same_vectors(tmp_path: Path) -> None:
    pool, past = words()
    first, _, _ = replay.refit(pool, past, 10, "lsa", keep_in=tmp_path / "encoder")
    second, _, _ = replay.refit(pool, past, 10, "lsa", keep_in=tmp_path / "encoder")
    assert np.array_equal(first.vectors, second.vectors)


def test_anchors_come_from_the_last_sessions_alone() -> None:
    _, past = small_world()
    late = past._replace(times=past.times[::-1].copy())
    assert set(draw_anchors(past, 50, 0, last=5).sessions) <= set(range(25, 30))
    assert set(draw_anchors(late, 50, 0, last=5).sessions) <= set(range(5))


def test_all_sessions_cannot_be_held_out() -> None:
    pool, past = words()
    with pytest.raises(InvalidInput, match="Hold out fewer"):
        replay.refit(pool, past, 30)
