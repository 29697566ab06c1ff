"""The tree, beside scikit-learn's and brute force; and the rules that are made of it."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from nextquery.explore.table import Column
from nextquery.explore.tree import inside, relevant_boxes, rules


def numbers(values: NDArray[np.float64]) -> list[Column]:
    return [Column(f"x{i}", "DOUBLE", "number", column) for i, column in enumerate(values.T)]


@pytest.mark.parametrize("seed", range(5))
def test_as_many_splits_as_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((400, 3))
    relevant = (np.abs(values[:, 0] - 0.5) < 0.2) & (values[:, 1] < 0.6)
    boxes = relevant_boxes(numbers(values), np.arange(400), relevant)
    assert inside(boxes, numbers(values)).tolist() == relevant.tolist()
    peer = DecisionTreeClassifier(random_state=0).fit(values, relevant)
    leaves = np.unique(peer.apply(values)[relevant])
    assert abs(len(boxes) - len(leaves)) <= 2
    fresh = rng.random((4000, 3))
    agree = inside(boxes, numbers(fresh)) == peer.predict(fresh)
    assert agree.mean() > 0.97


@pytest.mark.parametrize("seed", range(5))
def test_the_best_two_sets_of_categories(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(5, size=60).astype(float)
    relevant = rng.random(60) < np.array([0.1, 0.9, 0.3, 0.7, 0.5])[codes.astype(int)]
    column = Column("c", "VARCHAR", "category", codes, tuple("abcde"))

    def impurity(left: set[float]) -> float:
        sides = [np.isin(codes, list(left)), ~np.isin(codes, list(left))]
        cost = 0.0
        for side in sides:
            n, p = side.sum(), relevant[side].sum()
            cost += 2 * p * (n - p) / n if n else 0.0
        return float(cost)

    every = [set(c) for r in range(1, 5) for c in itertools.combinations(range(5), r)]
    best = min(impurity({float(x) for x in left}) for left in every)
    from nextquery.explore.tree import _of_categories

    split = _of_categories(0, column, np.arange(60), relevant)
    assert split is not None
    assert split.impurity == pytest.approx(best)


def test_nulls_go_to_the_better_side() -> None:
    values = np.array([[1.0], [2.0], [3.0], [np.nan], [np.nan]])
    columns = numbers(values)
    for marks in ([0, 0, 1, 1, 1], [1, 1, 0, 1, 1], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0]):
        relevant = np.array(marks, bool)
        boxes = relevant_boxes(columns, np.arange(5), relevant)
        assert inside(boxes, columns).tolist() == relevant.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_rules_say_the_same_of_the_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((300, 4))
    values[rng.random((300, 4)) < 0.05] = np.nan
    columns = numbers(values)
    codes = rng.integers(4, size=300)
    columns.append(Column("c", "VARCHAR", "category", codes.astype(float), tuple("abcd")))
    relevant = (values[:, 0] < 0.3) & (codes < 2) | (values[:, 2] > 0.8)
    leaves = relevant_boxes(columns, np.arange(300), relevant)
    simpler = rules(leaves, columns, np.arange(300), relevant)
    assert inside(simpler, columns).tolist() == relevant.tolist()
    assert len(simpler) <= len(leaves)


def test_the_same_row_twice_with_two_labels() -> None:
    columns = numbers(np.array([[1.0], [1.0], [1.0], [5.0]]))
    rows = np.arange(4)
    assert relevant_boxes(columns, rows, np.array([True, False, False, False])) == []
    boxes = relevant_boxes(columns, rows, np.array([True, True, False, False]))
    assert inside(boxes, columns).tolist() == [True, True, True, False]
