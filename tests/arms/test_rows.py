import numpy as np

from nextquery.arms.scan import Rows


def test_a_view_taken_before_stays_valid() -> None:
    rows = Rows(np.eye(3, dtype=np.float32))
    rows.append(np.full((1, 3), 7, np.float32))
    before = rows.segments()[1]
    for value in range(200):  # grows the buffer several times
        rows.append(np.full((1, 3), value, np.float32))
    assert before.tolist() == [[7, 7, 7]]
    assert len(rows) == 204
    assert rows.whole()[3:].tolist() == [[v] * 3 for v in [7, *range(200)]]
