"""What each phase asks for, in tables where the best row is evident."""

import numpy as np
import pytest

from nextquery.explore.columns import Column
from nextquery.explore.phases.boundary import borders
from nextquery.explore.phases.discovery import discover
from nextquery.explore.phases.doubt import Doubt
from nextquery.explore.phases.misclassified import near, unseen
from nextquery.explore.phases.next_rows import Explorer
from nextquery.explore.space import Flags, Hull, Space


def line(rows: int = 1000) -> Space:
    """One column: row i has the value i."""
    column = Column("x", "DOUBLE", "number", np.arange(rows, dtype=float))
    return Space([column], np.arange(rows))


def flags(rows: int, true: list[int]) -> Flags:
    found: Flags = np.zeros(rows, bool)
    found[true] = True
    return found


def test_discovery_spreads_over_the_table() -> None:
    space, rng = line(), np.random.default_rng(0)
    found = discover(space, np.arange(0), np.arange(1000), 20, rng)
    assert len(set(found)) == 20
    assert len({row // 100 for row in found}) == 10  # each tenth, which 20 random rows seldom do


def test_discovery_goes_where_nothing_is_labelled() -> None:
    space, rng = line(), np.random.default_rng(0)
    found = discover(space, np.arange(500), np.arange(500, 1000), 10, rng)
    assert min(found) >= 500
    assert discover(space, np.arange(999), np.array([999]), 5, rng) == [999]


def test_rows_near_a_lone_relevant_row() -> None:
    space, rng = line(), np.random.default_rng(0)
    relevant = flags(1000, [500])
    doubts = near(space, np.array([500]), relevant, relevant, 5, rng)
    assert len(doubts) == 5
    assert all(isinstance(doubt, Doubt) and doubt.urgent for doubt in doubts)
    assert all(0 < abs(doubt.row - 500) <= 25 for doubt in doubts)
    known = flags(1000, list(range(470, 531)))  # and the others there are not
    assert near(space, np.array([500]), relevant, known, 5, rng) == []


def test_near_is_near_in_what_relevant_rows_share() -> None:
    rng = np.random.default_rng(0)
    columns = [Column(f"x{i}", "DOUBLE", "number", rng.random(5000)) for i in range(2)]
    columns[0].values[:2], columns[1].values[:2] = 0.5, (0.1, 0.9)  # they share the first alone
    space, relevant = Space(columns, np.arange(5000)), flags(5000, [0, 1])
    rows = [doubt.row for doubt in near(space, np.array([0, 1]), relevant, relevant, 20, rng)]
    spread = [np.ptp(column.values[rows]) for column in columns]
    assert spread[0] < 0.5 * spread[1]


def test_what_the_tree_calls_relevant_beyond_the_relevant_rows() -> None:
    rng, known = np.random.default_rng(0), flags(1000, [510])
    doubts = unseen(np.arange(400, 600), np.arange(450, 500), known, 10, rng)
    rows = {doubt.row for doubt in doubts}
    assert len(rows) == 10
    assert all(400 <= row < 450 or 500 <= row < 600 for row in rows - {510})
    assert 510 not in rows
    assert unseen(np.arange(5), np.arange(5), known, 10, rng) == []


def test_a_border_is_halved() -> None:
    space, rng = line(), np.random.default_rng(0)
    region, walls = np.array([400, 450, 500]), np.array([100, 900])
    labelled = flags(1000, [*region, *walls])
    doubts, inside = borders(space, region, walls, labelled, rng)
    rows = sorted(doubt.row for doubt in doubts if doubt.stake > 200)
    assert rows == [250, 700]  # halfway to what is known to be irrelevant
    assert 100 < len(inside) < 160


def test_other_categories_are_asked_once() -> None:
    x = Column("x", "DOUBLE", "number", np.arange(900.0))
    kind = Column("kind", "VARCHAR", "category", np.arange(900.0) % 3, ("a", "b", "c"))
    space, rng = Space([x, kind], np.arange(900)), np.random.default_rng(0)
    region = np.array([300, 360, 420, 480])  # all of kind a
    wall = np.array([400])  # of kind b, and inside otherwise
    doubts, _ = borders(space, region, wall, flags(900, [*region, *wall]), rng)
    asked = {int(kind.values[doubt.row]) for doubt in doubts}
    assert asked == {0, 2}  # a at the ends, c once; that b is irrelevant is known


def test_a_hull_counts_what_is_outside() -> None:
    points = np.array([[0.2, 0], [0.4, 1]], np.float32)
    hull = Hull.around(points, np.array([False, True]))
    others = np.array([[0.3, 0], [0.9, 2], [0.3, 2]], np.float32)
    assert hull.outside(others).T.tolist() == [[False, False], [True, True], [False, True]]


@pytest.mark.parametrize("wanted", [1, 10, 64])
def test_a_round_has_different_rows_without_a_label(wanted: int) -> None:
    rng = np.random.default_rng(0)
    columns = [Column(f"x{i}", "DOUBLE", "number", rng.random(2000)) for i in range(3)]
    explorer = Explorer(columns, 2000, seed=1)
    labels: dict[int, bool] = {}
    for _ in range(6):
        rows = [doubt.row for doubt in explorer.rows(wanted)]
        assert len(set(rows)) == wanted
        assert not set(rows) & set(labels)
        labels |= {row: bool(columns[0].values[row] < 0.3) for row in rows}
        explorer.look(labels)
