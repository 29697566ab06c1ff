"""The GPU path on torch's CPU device: the same code, so the same results."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import nextquery as nq
from nextquery.arms import gpu
from nextquery.arms.gpu import DeviceArms, half_error_bound
from nextquery.errors import InvalidInput
from nextquery.vectors import unit_rows

torch = pytest.importorskip("torch")


def answers(
    rows: NDArray[Any], anchors: NDArray[Any], removed: list[int], k: int, **how: Any
) -> Any:
    device = DeviceArms(rows, np.array(removed, np.int64), "cpu", half=how.pop("half", False))
    return [(f.ids.tolist(), f.similarities.tolist()) for f in device.nearest(anchors, k, **how)]


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 90), st.integers(1, 5), st.booleans(), st.data())
def test_the_answers_are_those_of_the_pool(
    seed: int, n: int, d: int, half: bool, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, size=(n, d)) + rng.normal(size=(n, d)) * data.draw(
        st.sampled_from([0.0, 1e-7, 1.0])
    )
    rows[~rows.any(axis=1)] = 1.0
    rows[rng.integers(n, size=n // 2)] = rows[0]
    pool = nq.ArmPool.from_vectors([str(i) for i in range(n)], rows)
    anchors = unit_rows(np.vstack([pool.vectors[:2], rng.normal(size=(3, d))]))
    removed = data.draw(st.lists(st.integers(0, n - 1), unique=True))
    exclude = [np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))), int) for _ in anchors]
    low = data.draw(st.sampled_from([-np.inf, 0.0, 0.7]))
    k = data.draw(st.integers(1, n + 3))
    pool.remove(removed)
    found = answers(pool.vectors, anchors, removed, k, exclude=exclude, low=low, half=half)
    for (ids, scores), anchor, hidden in zip(found, anchors, exclude, strict=True):
        expected = pool.nearest(anchor, k, hidden.tolist(), at_least=low)
        assert ids == expected[0].tolist()
        assert scores == expected[1].tolist()


def test_very_many_arms_that_are_nearly_as_good() -> None:
    """Far more arms than are first proposed are within the slack of half precision."""
    rng = np.random.default_rng(0)
    middle = unit_rows(rng.normal(size=(1, 16)))
    rows = unit_rows(middle + rng.normal(size=(3000, 16)) * 1e-5)
    pool = nq.ArmPool.from_vectors([str(i) for i in range(3000)], rows)
    ids, scores = pool.nearest(middle[0], 10)
    assert answers(pool.vectors, middle, [], 10, half=True) == [(ids.tolist(), scores.tolist())]


@given(st.integers(1, 300), st.integers(0, 100))
def test_half_precision_stays_within_its_bound(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = unit_rows(rng.normal(size=(20, d)) ** 3)
    halves = torch.tensor(rows).half()
    products = (halves.float() @ halves.float().T).half().double().numpy()
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    assert np.abs(products - exact).max() <= half_error_bound(d)


def test_a_missing_gpu_is_an_error_if_it_is_named() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    pool = nq.ArmPool.from_vectors(["a", "b"], np.eye(2))
    with pytest.raises(InvalidInput, match="torch sees no GPU"):
        pool.nearest([[1, 0]], 1, device="cuda")
    with pytest.raises(InvalidInput, match="'auto', 'cpu' or 'cuda'"):
        pool.nearest([[1, 0]], 1, device="tpu")
    assert not gpu.use_gpu("auto", 10**6, 10**6)
    assert pool.nearest([[1, 0]], 1, device="cpu")[0].tolist() == [[0]]
