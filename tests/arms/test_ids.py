import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextquery.arms.pool import among, checked_ids
from nextquery.errors import InvalidInput


def test_order_is_kept_on_request() -> None:
    assert checked_ids([3, 1, 3], "ids", 5, keep_order=True).tolist() == [3, 1, 3]
    assert checked_ids(np.array([2], np.uint8), "ids", 5).dtype == np.int64
    assert checked_ids((), "ids", 0).size == 0


@pytest.mark.parametrize("ids", [3, [5], [-1], [0.5], [[1]], ["a"]])
def test_invalid_ids_are_rejected(ids: object) -> None:
    with pytest.raises(InvalidInput, match="exclude"):
        checked_ids(ids, "exclude", 5)  # type: ignore[arg-type]


@given(st.lists(st.integers(-5, 40), max_size=40), st.lists(st.integers(-5, 40), max_size=40))
def test_among_is_isin(ids: list[int], others: list[int]) -> None:
    one, other = np.array(ids, np.int64), np.array(others, np.int64)
    assert among(one, other).tolist() == np.isin(one, other).tolist()


@given(st.lists(st.integers(0, 30), max_size=30), st.booleans())
def test_few_and_many_ids_are_checked_alike(ids: list[int], keep_order: bool) -> None:
    expected = ids if keep_order else sorted(set(ids))
    for given_ids in (ids, tuple(ids), np.array(ids, np.int64)):
        found = checked_ids(given_ids, "ids", 31, keep_order=keep_order)
        assert found.dtype == np.int64
        assert found.tolist() == expected
