"""Anchors come from sessions that the vectors have not seen."""

from nextquery.research.replay.cells import draw_anchors
from tests.research.replay.worlds import small_world


def test_anchors_come_from_the_last_sessions_alone() -> None:
    _, past = small_world()
    late = past._replace(times=past.times[::-1].copy())
    assert set(draw_anchors(past, 50, 0, last=5).sessions) <= set(range(25, 30))
    assert set(draw_anchors(late, 50, 0, last=5).sessions) <= set(range(5))
