"""Rules that explain the labels, and the rows that decide between them."""

import numpy as np
import pytest

from nextquery.explore.sampling import (
    BOUNDARY,
    MISCLASSIFIED,
    Doubt,
    Explorer,
    RandomRules,
    questions,
)
from nextquery.explore.table import Column, Flags, Rows, Space
from nextquery.explore.tree import inside
from tests.explore.worlds import line, one_region

NOTHING = np.arange(0)


def asked(space: Space, region: list[int], walls: list[int], wanted: int = 10) -> list[int]:
    """Return the rows that are asked for; the rows of the region and the walls have labels."""
    labelled = np.zeros(len(space.rows), bool)
    labelled[[*region, *walls]] = True
    rng = np.random.default_rng(0)
    found = questions(space, np.array(region), np.array(walls, int), labelled, wanted, rng)
    assert all(isinstance(doubt, Doubt) and not labelled[doubt.row] for doubt in found)
    return [doubt.row for doubt in found]


@pytest.mark.parametrize("seed", range(5))
def test_every_rule_explains_the_labels(seed: int) -> None:
    columns, relevant = one_region(3000, seed)
    columns[0].values[::9] = np.nan
    space, rng = Space(columns, np.arange(3000)), np.random.default_rng(seed)
    region = np.flatnonzero(relevant & ~np.isnan(columns[0].values))[:4]
    others = np.flatnonzero(~relevant)[:300]
    held = RandomRules(space, region, others, 50, rng).rows()
    assert len(held) > 10
    assert all(set(region) <= set(rows) for rows in held)
    assert not any(set(others) & set(rows) for rows in held)
    assert len({len(rows) for rows in held}) > 10  # and each widens in its own way


def test_a_region_with_relevant_nulls() -> None:
    values = np.array([np.nan, np.nan, *np.arange(98.0)])
    space = Space([Column("x", "DOUBLE", "number", values)], np.arange(100))
    held = RandomRules(space, np.array([0]), np.array([99]), 20, np.random.default_rng(0)).rows()
    assert len(held) == 20
    assert all({0, 1} <= set(rows) and 99 not in rows for rows in held)


def test_rules_where_no_columns_keep_a_row_out() -> None:
    space = Space([Column("x", "DOUBLE", "number", np.zeros(9))], np.arange(9))
    rng = np.random.default_rng(0)
    assert RandomRules(space, np.array([0]), np.array([1]), 20, rng).rows() == []
    assert asked(space, [0], [1]) == []
    assert asked(space, [0], []) == []  # all rows are alike


def test_a_border_is_halved() -> None:
    first = asked(line(), [400, 425, 450, 475, 500], [100, 900], wanted=2)
    below, above = sorted(first)
    assert 190 < below < 310  # halfway to what is known to be irrelevant
    assert 610 < above < 790


def test_nothing_is_asked_when_the_borders_are_known() -> None:
    region = list(range(300, 600))
    assert asked(line(), region, [299, 600]) == []
    assert asked(line(), region, [298, 601]) == []  # less than one row in doubt
    assert set(asked(line(), region, [200, 600], wanted=3)) <= set(range(201, 300))


def test_in_a_small_region_one_row_matters() -> None:
    assert asked(line(40), [20, 21], [18, 22]) == [19]


def test_a_category_that_a_label_excludes_is_not_asked() -> None:
    x = Column("x", "DOUBLE", "number", np.arange(900.0))
    kind = Column("kind", "VARCHAR", "category", np.arange(900.0) % 3, ("a", "b", "c"))
    space = Space([x, kind], np.arange(900))
    wall = [400]  # of kind b, and inside otherwise
    rows = asked(space, [300, 360, 420, 480], wall)
    assert {row % 3 for row in rows} == {0, 2}  # that b is irrelevant is known


def test_rows_between_two_relevant_rows_are_asked() -> None:
    assert any(250 < row < 750 for row in asked(line(), [200, 800], [100, 900]))


@pytest.mark.parametrize(("walls", "phase"), [([0, 999], MISCLASSIFIED), ([290, 709], BOUNDARY)])
def test_large_doubts_are_the_second_phase_and_small_ones_the_third(
    walls: list[int], phase: str
) -> None:
    space, region = line(), np.arange(300, 700, 10)
    labelled = np.zeros(1000, bool)
    rng = np.random.default_rng(0)
    found = questions(space, region, np.array(walls), labelled, 5, rng)
    assert {doubt.phase for doubt in found} == {phase}


@pytest.mark.parametrize(
    "columns",
    [
        [Column("x", "DOUBLE", "number", np.zeros(50))],
        [Column("kind", "VARCHAR", "category", np.zeros(50), ("a",))],
        [Column("x", "DOUBLE", "number", np.full(50, np.nan))],
        [Column("x", "DOUBLE", "number", np.zeros(1))],
    ],
    ids=["constant", "one category", "nulls", "one row"],
)
def test_tables_in_which_all_rows_are_alike(columns: list[Column]) -> None:
    rows = len(columns[0].values)
    explorer = Explorer(columns, rows, seed=0)
    labels: dict[int, bool] = {}
    while len(labels) < rows:
        found = [doubt.row for doubt in explorer.rows(7)]
        assert len(set(found)) == min(7, rows - len(labels))
        labels |= {row: row % 2 == 0 for row in found}
        explorer.look(labels)
    assert explorer.rows(7) == []


def f_of(explorer: Explorer, columns: list[Column], relevant: Flags) -> float:
    selected = inside(explorer.boxes, columns)
    return float(2 * (selected & relevant).sum() / (selected.sum() + relevant.sum()))


def labels_needed(seed: int, choose: str) -> int:
    """Return the labels until F is 0.9, from one relevant row on, in a table of one region."""
    columns, relevant = one_region(10_000, seed)
    explorer = Explorer(columns, 10_000, seed=seed)
    order: Rows = np.random.default_rng(seed).permutation(10_000)
    labels = {int(np.flatnonzero(relevant)[0]): True}
    explorer.look(labels)
    while f_of(explorer, columns, relevant) < 0.9 and len(labels) < 4000:
        if choose == "random":
            rows = order[len(labels) : len(labels) + 400].tolist()
        else:
            rows = [doubt.row for doubt in explorer.rows(20)]
        labels |= {row: bool(relevant[row]) for row in rows}
        explorer.look(labels)
    return len(labels)


def test_it_needs_a_tenth_of_the_labels_of_random_sampling() -> None:
    """From the first relevant row on: what finding that row costs is left out on both sides."""
    seeds = (103, 104)
    ours = [labels_needed(seed, "committee") for seed in seeds]
    assert 10 * sum(ours) <= sum(labels_needed(seed, "random") for seed in seeds)
