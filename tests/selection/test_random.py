import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput


def test_every_arm_is_equally_likely_and_hidden_ones_never_come() -> None:
    pool = nq.ArmPool.from_vectors(
        [f"q{i}" for i in range(10)], np.random.default_rng(0).normal(size=(10, 3))
    )
    pool.remove([3])
    selector = nq.RandomSelection(2)
    rng = np.random.default_rng(1)
    draws = selector.select_many(pool, np.ones((4000, 3)), [[7]] * 4000, rng)
    counts = np.bincount(np.concatenate([c.arms for c in draws]), minlength=10)
    assert counts[[3, 7]].tolist() == [0, 0]
    live = np.delete(counts, [3, 7])
    assert live.sum() == 8000
    assert ((live - 1000) ** 2 / 1000).sum() < 30  # chi-square with 7 degrees of freedom


@pytest.mark.parametrize("selector", [nq.RandomSelection(7), nq.PreferenceSample(7)])
def test_with_a_generator_for_each_row_no_row_depends_on_the_others(
    pool: nq.ArmPool, selector: nq.Selector
) -> None:
    assert selector.draws
    together = selector.select_many(pool, pool.vectors[:5], (), [generator(i) for i in range(5)])
    for i, found in enumerate(together):
        alone = selector.select(pool, pool.vectors[i], (), generator(i))
        assert alone.arms.tolist() == found.arms.tolist()
    with pytest.raises(InvalidInput, match="one for each of 5 rows; received 2"):
        selector.select_many(pool, pool.vectors[:5], (), [generator(0), generator(1)])


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_more_than_there_are_is_all_there_are(pool: nq.ArmPool) -> None:
    assert set(nq.RandomSelection(100).select(pool, np.ones(8)).arms) == set(range(40))
