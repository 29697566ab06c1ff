import numpy as np

import nextquery as nq


def test_all_arms_near_enough(pool: nq.ArmPool) -> None:
    anchor = pool.vectors[5]
    similarities = pool.score(range(40), anchor)
    for threshold in (-1.0, 0.0, 0.3, 0.9):
        found = nq.Zooming(threshold).select(pool, anchor)
        assert set(found.arms) == set(np.flatnonzero(similarities >= threshold))


def test_an_empty_set_falls_back_to_the_nearest(pool: nq.ArmPool) -> None:
    nearest = pool.nearest(pool.vectors[5], 1, exclude=[5])[0]
    found = nq.Zooming(1.0).select(pool, pool.vectors[5], exclude=[5])
    assert found.arms.tolist() == nearest.tolist()
