"""Sums of table rows have the bits of SciPy's sparse product, and need no SciPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nextquery.encode.tokens import summed

BAGS = st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(bags=BAGS, seed=st.integers(0, 1000), width=st.integers(1, 20))
def test_the_bits_are_those_of_a_sparse_product(
    kind: Any, bags: list[list[int]], seed: int, width: int
) -> None:
    rng = np.random.default_rng(seed)
    table: NDArray[Any] = rng.normal(size=(10, width)).astype(kind)
    offsets = np.cumsum([0, *map(len, bags)])
    rows = np.array([row for bag in bags for row in bag], np.int64)
    weights = rng.normal(size=len(rows)).astype(kind)
    product = csr_array((weights, rows, offsets), shape=(len(bags), 10)) @ table
    assert summed(table, rows, offsets, weights).tobytes() == product.tobytes()
