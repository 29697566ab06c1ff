import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nextquery.errors import InvalidInput
from nextquery.vectors import unit_rows

MATRICES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=9),
    elements=st.floats(allow_nan=False, allow_infinity=False),
)


@given(MATRICES)
def test_rows_have_length_one_and_stay_put(matrix: np.ndarray) -> None:
    rows = unit_rows(matrix, allow_zero=True)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    zero = ~matrix.any(axis=1)
    assert rows.dtype == np.float32
    assert np.allclose(lengths[~zero], 1, atol=1e-6)
    assert not rows[zero].any()
    assert np.array_equal(unit_rows(rows, allow_zero=True), rows)  # bit for bit


@given(MATRICES)
def test_a_row_does_not_depend_on_its_batch(matrix: np.ndarray) -> None:
    together = unit_rows(matrix, allow_zero=True)
    alone = [unit_rows(row[None], allow_zero=True)[0] for row in matrix]
    assert np.array_equal(together, np.stack(alone))


def test_many_rows_are_done_in_parts(rng: np.random.Generator) -> None:
    matrix = rng.normal(size=(40_000, 3))
    expected = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    assert np.allclose(unit_rows(matrix), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0], [np.nan, 1]], "row 1 is not finite"),
        ([[1.0, 0], [np.inf, 1]], "row 1 is not finite"),
        ([[1.0, 0], [0, 1], [0, 0]], "row 2 is zero"),
        ([[1.0, 0], [1.0]], "rows of one length"),
        ([1.0, 2.0], r"received shape \(2,\)"),
        ([["a", "b"]], "matrix of real numbers"),
        (np.empty((2, 0)), "matrix of real numbers"),
    ],
)
def test_bad_rows_are_named(matrix: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        unit_rows(matrix)  # type: ignore[arg-type]


def test_a_bad_row_far_down_is_named() -> None:
    matrix = np.ones((20_000, 2))
    matrix[17_001] = 0
    with pytest.raises(InvalidInput, match="row 17001 is zero"):
        unit_rows(matrix)
    with pytest.raises(InvalidInput, match="must have 3 columns; received 2"):
        unit_rows(matrix, dim=3)
