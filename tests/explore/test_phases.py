"""What discovery asks for where the best row is evident, and how the phases share a round."""

import numpy as np
import pytest

from nextquery.explore.sampling import Explorer, discover
from nextquery.explore.table import Column, Hull
from tests.explore.worlds import line


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


@pytest.mark.parametrize("wanted", [1, 10])
def test_the_phases_share_the_rows(wanted: int) -> None:
    rng = np.random.default_rng(0)
    columns = [Column(f"x{i}", "DOUBLE", "number", rng.random(2000)) for i in range(3)]
    explorer = Explorer(columns, 2000, seed=1)
    labels = dict.fromkeys(range(1, 100), False) | {0: True}
    phases = []
    for row in range(100, 112):  # labels that change nothing, and each gives another draw
        explorer.look(labels := labels | {row: False})
        phases += [doubt.phase for doubt in explorer.rows(wanted)]
    share = phases.count("misclassified") / len(phases)
    assert 0.5 < share < 0.95  # three quarters go to what much depends on
    assert phases.count("discovery") == len(phases) - phases.count("misclassified")
