import numpy as np
import pytest

from nextquery.arms.ids import checked_ids
from nextquery.errors import InvalidInput


def test_order_is_kept_on_request() -> None:
    assert checked_ids([3, 1, 3], "ids", 5, keep_order=True).tolist() == [3, 1, 3]
    assert checked_ids(np.array([2], np.uint8), "ids", 5).dtype == np.int64
    assert checked_ids((), "ids", 0).size == 0


@pytest.mark.parametrize("ids", [3, [5], [-1], [0.5], [[1]], ["a"]])
def test_invalid_ids_are_rejected(ids: object) -> None:
    with pytest.raises(InvalidInput, match="exclude"):
        checked_ids(ids, "exclude", 5)  # type: ignore[arg-type]
