import sys
from pathlib import Path
from typing import Any

import pytest

from nextquery.encode import Encoder, SentenceEncoder
from nextquery.errors import InvalidInput


def test_the_error_shows_how_to_install_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
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

    def test_rejects_an_unknown_reduction(self) -> None:
        with pytest.raises(InvalidInput, match="reduce must be one of sessions, texts, none"):
            SentenceEncoder(reduce="umap")


def test_a_folder_is_found_again_from_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert SentenceEncoder("model").model == str(tmp_path / "model")
    assert SentenceEncoder("another").model == "another"
