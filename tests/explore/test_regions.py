"""Which relevant rows are taken for one region."""

import numpy as np
import pytest

from nextquery.explore.tree import regions
from tests.explore.worlds import one_region

NUMBERS = np.array([False, False])


def test_rows_of_one_box_are_one_region() -> None:
    columns, relevant = one_region(20_000, seed=100)
    points = np.stack([column.values for column in columns], axis=1).astype(np.float32)
    is_category = np.array([column.is_category for column in columns])
    hits, others = points[relevant][:40], points[~relevant][:500]
    assert [len(found) for found in regions(hits, others, is_category)] == [40]


@pytest.mark.parametrize("order", range(5))
def test_two_boxes_with_a_row_between_are_two_regions(order: int) -> None:
    rng = np.random.default_rng(order)
    low, high = rng.uniform(0, 0.3, (10, 2)), rng.uniform(0.7, 1, (10, 2))
    shuffled = rng.permutation(20)
    points = np.concatenate([low, high])[shuffled].astype(np.float32)
    between = np.array([[0.5, 0.5]], np.float32)
    found = regions(points, between, NUMBERS)
    sides = [{bool(shuffled[at] >= 10) for at in members} for members in found]
    assert sorted(map(len, found)) == [10, 10]
    assert all(len(side) == 1 for side in sides)


def test_a_region_takes_back_what_a_smaller_one_has() -> None:
    rows = np.linspace(0, 0.4, 9)
    relevant = np.concatenate([rows, [0.6, 0.62, 0.64]])[:, None].astype(np.float32)
    found = regions(relevant, np.array([[0.5]], np.float32), np.array([False]))
    assert [members.tolist() for members in found] == [[*range(9)], [9, 10, 11]]


def test_relevant_and_irrelevant_rows_that_are_equal() -> None:
    same = np.zeros((3, 2), np.float32)
    found = regions(same, same[:1], NUMBERS)
    assert sorted(np.concatenate(found).tolist()) == [0, 1, 2]
    assert regions(same[:0], same, NUMBERS) == []
    assert [len(members) for members in regions(same, same[:0], NUMBERS)] == [3]
