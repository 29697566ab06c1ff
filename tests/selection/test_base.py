import numpy as np
import pytest

import nextquery as nq
from nextquery.errors import InvalidInput


def test_candidates_of_plain_lists() -> None:
    c = nq.Candidates([3, 5], [[1, 0], [0, 1]], [0.5, 0.2], [0.7, 0.3])  # type: ignore[arg-type]
    assert c.arms.dtype == np.int64
    choice = nq.LinUCB(model="disjoint").choose(c, nq.Context([1, 0]))
    assert choice is not None
    assert choice.arm == 3
    assert c.take([False, True]).arms.tolist() == [5]


def test_candidates_must_be_equally_many() -> None:
    with pytest.raises(InvalidInput, match="the same number of arms"):
        nq.Candidates([3], [[1, 0], [0, 1]], [0.5], [0.7])  # type: ignore[arg-type]


def test_k_belongs_to_selectors_that_have_one(pool: nq.ArmPool) -> None:
    with pytest.raises(InvalidInput, match="Zooming selects by threshold and takes no k"):
        nq.Zooming().select(pool, pool.vectors[0], k=3)
    assert len(nq.MaxUtility(10).select(pool, pool.vectors[0], k=3)) == 3
