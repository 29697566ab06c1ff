"""Users with known preferences: acceptance rises close to the best possible."""

import pytest

from benchmarks.population import live


@pytest.mark.soak
def test_acceptance_rises_to_the_best_possible() -> None:
    accepted, best = live("lin-ucb-memory", arms=20, rounds=1500, people=25)
    first, last = slice(0, 100), slice(-500, None)
    assert accepted[first].mean() < 0.5 * best[first].mean()
    assert accepted[last].mean() > 0.85 * best[last].mean()
