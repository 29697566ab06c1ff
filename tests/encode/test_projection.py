from pathlib import Path
from typing import Any

import pytest

from nextquery.encode import Encoder, LsaEncoder, ProjectedEncoder
from nextquery.errors import InvalidInput


@pytest.mark.parametrize("layers", [1, 2])
def test_projects_any_encoder_bit_for_bit(layers: int, pets_and_money: Any, tmp_path: Path) -> None:
    texts, sessions = pets_and_money
    encoder: Encoder = LsaEncoder(dim=24, analyzer="char")
    for _ in range(layers):
        encoder = ProjectedEncoder(encoder, dim=12)
    encoder.fit(texts, sessions).save(tmp_path / "encoder")
    again = Encoder.load(tmp_path / "encoder")
    whole = again.encode(texts)
    assert whole.shape == (len(texts), 12)
    assert whole.tobytes() == encoder.encode(texts).tobytes()
    assert whole[5:6].tobytes() == encoder.encode(texts[5:6]).tobytes()
    assert not encoder.encode(["🫠"]).any()


def test_rejects_a_base_that_is_not_an_encoder() -> None:
    with pytest.raises(InvalidInput, match=r"base must be an encoder.*received 'lsa'"):
        ProjectedEncoder("lsa")  # type: ignore[arg-type]


def test_rejects_a_log_without_sessions() -> None:
    with pytest.raises(InvalidInput, match="at least 2 sessions"):
        ProjectedEncoder().fit(["cat", "dog"])
    with pytest.raises(InvalidInput, match="shrinkage must be a number above 0"):
        ProjectedEncoder(shrinkage=0)
