"""benchmarks.paper_vectors: intervals that cover people and seeds."""

import numpy as np
import pytest

from benchmarks.paper_vectors import over_people_and_seeds
from nextquery.research.report.tables import interval


def test_one_seed_has_the_interval_over_people(rng: np.random.Generator) -> None:
    hits, people = (rng.random((1, 300)) < 0.3).astype(float), np.repeat(np.arange(60), 5)
    assert over_people_and_seeds(hits, people) == pytest.approx(interval(hits[0], people))


def test_seeds_that_differ_widen_it(rng: np.random.Generator) -> None:
    people = np.repeat(np.arange(60), 5)
    hits = (rng.random(300) < 0.3).astype(float)
    same = over_people_and_seeds(np.array([hits, hits, hits]), people)
    assert same == pytest.approx(interval(hits, people))
    moved = np.array([hits - 0.05, hits, hits + 0.05])
    mean, low, high = over_people_and_seeds(moved, people)
    luck = 4.302653 * 0.05 / 3**0.5  # Student's quantile with two degrees of freedom
    assert mean == pytest.approx(same[0])
    assert mean - low == pytest.approx(np.hypot(same[0] - same[1], luck))
    assert high - mean == pytest.approx(np.hypot(same[2] - same[0], luck))
