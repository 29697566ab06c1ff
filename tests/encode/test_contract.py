"""Contract tests for every subclass of `Encoder`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nextquery
from nextquery.encode import Encoder, Sessions, TrainedEncoder
from nextquery.errors import InvalidInput

WORDS = ["cat", "stock", "mortgage", "savings account", "vet", "7", "zyx", "ναι", "🫠", " "]


def encoders() -> list[type[Encoder]]:
    kinds: set[type[Encoder]] = set()
    pending: list[Any] = [Encoder]
    while pending:
        subs = pending.pop().__subclasses__()
        pending.extend(subs)
        kinds.update(sub for sub in subs if sub.__module__.startswith(nextquery.__name__))
    kinds.remove(TrainedEncoder)  # fitted by a command; tests/encode/train has the same tests
    return sorted(kinds, key=lambda encoder: encoder.name)


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture(scope="module", params=encoders(), ids=lambda kind: str(kind.name))
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def encoder(kind: Any, pets_and_money: Any, a_sentence_model: None) -> Encoder:
    fitted: Encoder = kind().fit(*pets_and_money)
    return fitted


@pytest.mark.usefixtures("a_sentence_model")
class TestEveryEncoder:
    def test_gives_unit_rows_of_float32(self, encoder: Encoder, pets_and_money: Any) -> None:
        rows = encoder.encode(pets_and_money.texts)
        assert rows.dtype == np.float32
        assert rows.shape == (len(pets_and_money.texts), encoder.dim)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)

    @settings(deadline=None, max_examples=25)
    @given(data=st.data())
    def test_a_text_has_the_same_bits_in_any_batch(self, encoder: Encoder, data: Any) -> None:
        text = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=20)
        texts = data.draw(st.lists(text, min_size=1, max_size=40))
        order = data.draw(st.permutations(range(len(texts))))
        whole = encoder.encode(texts)
        alone = np.concatenate([encoder.encode([text]) for text in texts])
        shuffled = encoder.encode([texts[i] for i in order])
        assert whole.tobytes() == alone.tobytes()
        assert whole[list(order)].tobytes() == shuffled.tobytes()

    def test_a_large_batch_has_the_bits_of_a_small_one(self, encoder: Encoder) -> None:
        texts = [f"cat {n} stock" for n in range(300)]
        many = encoder.encode(texts * 60)  # above the size of any block
        assert many[-300:].tobytes() == encoder.encode(texts).tobytes()

    def test_no_text_and_unknown_text(self, encoder: Encoder) -> None:
        assert encoder.encode([]).shape == (0, encoder.dim)
        assert encoder.encode([]).dtype == np.float32
        assert not encoder.encode(["", "  \t", "🫠", "🫠 🫠"]).any()

    def test_a_saved_encoder_goes_on_with_the_same_bits(
        self, encoder: Encoder, pets_and_money: Any, tmp_path: Path
    ) -> None:
        encoder.save(tmp_path / "encoder")
        again = Encoder.load(tmp_path / "encoder")
        assert type(again) is type(encoder)
        assert again.meta() == encoder.meta()
        texts = [*pets_and_money.texts, "unseen cat mortgage"]
        assert again.encode(texts).tobytes() == encoder.encode(texts).tobytes()
        again.save(tmp_path / "again")
        assert files_of(tmp_path / "again") == files_of(tmp_path / "encoder")

    def test_parts_are_named_apart_and_meta_is_json(self, encoder: Encoder) -> None:
        assert encoder.parts()
        assert all(name.startswith("encoder_") for name in encoder.parts())
        assert json.loads(json.dumps(encoder.meta())) == encoder.meta()

    def test_fitting_twice_gives_identical_files(
        self, kind: Any, encoder: Encoder, pets_and_money: Any, tmp_path: Path
    ) -> None:
        texts, sessions = pets_and_money
        as_arrays = Sessions.of(sessions)
        encoder.save(tmp_path / "one")
        kind().fit(texts, as_arrays).save(tmp_path / "two")
        assert files_of(tmp_path / "one") == files_of(tmp_path / "two")

    def test_can_be_fitted_again_on_another_log(self, kind: Any, pets_and_money: Any) -> None:
        texts, sessions = pets_and_money
        encoder = kind().fit(texts, sessions).fit(texts[::-1], sessions)
        fresh = kind().fit(texts[::-1], sessions)
        assert encoder.encode(texts).tobytes() == fresh.encode(texts).tobytes()

    def test_reports_numbers_between_0_and_1(self, kind: Any, pets_and_money: Any) -> None:
        reports: list[tuple[str, float | None]] = []
        encoder = kind()
        encoder.progress = lambda stage, done: reports.append((stage, done))
        encoder.fit(*pets_and_money)
        assert all(stage and (done is None or 0 <= done <= 1) for stage, done in reports)

    def test_raises_an_error_before_fitting(self, kind: Any) -> None:
        with pytest.raises(InvalidInput, match="not fitted"):
            kind().encode(["cat"])
        with pytest.raises(InvalidInput, match="not fitted"):
            kind().parts()

    def test_rejects_one_string_and_a_bad_dim(self, kind: Any, encoder: Encoder) -> None:
        with pytest.raises(InvalidInput, match=r"Wrap it: \[text\]"):
            encoder.encode("cat food")
        with pytest.raises(InvalidInput, match="dim must be a whole number"):
            kind(dim=0)

    def test_rejects_sessions_of_another_log(self, kind: Any) -> None:
        if kind.name in {"static", "lsa"}:  # these do not read sessions
            return
        with pytest.raises(InvalidInput, match="contain query 7"):
            kind().fit(["cat", "dog"], [[0, 7]])
