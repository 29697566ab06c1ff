"""What the benchmark of exploration counts: draws until each region is seen, and its baselines."""

from itertools import permutations

import numpy as np
import pytest

from benchmarks.explore import LEARNERS, draws_to_see, f_of, homes


def test_draws_to_see_is_the_mean_over_all_orders_of_a_small_table() -> None:
    regions = {0: "a", 1: "a", 2: "b", 3: "b", 4: "c", 5: "c"}  # rows 6 and 7 are in none
    waits = [
        max(min(order.index(row) + 1 for row in regions if regions[row] == name) for name in "abc")
        for order in permutations(range(8))
    ]
    assert draws_to_see(3, 2 / 8, 8) == pytest.approx(np.mean(waits))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_baseline_that_has_every_label_finds_every_relevant_row(name: str) -> None:
    table = homes(2000, 0)
    columns = {column.name: column for column in table.columns}
    relevant = (columns["city"].values == 1) & (columns["area"].values > 80)
    learn = LEARNERS[name](table, relevant, 0)
    assert f_of(learn(np.arange(2000)), relevant) == 1.0
    assert f_of(learn(np.arange(20)), relevant) < 1.0
