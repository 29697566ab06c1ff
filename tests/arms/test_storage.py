"""Saving an opened pool does not read its unchanged files."""

from pathlib import Path

import numpy as np

import nextquery as nq
from nextquery.encode import LsaEncoder


def test_unchanged_files_are_named_and_changed_ones_written(tmp_path: Path) -> None:
    texts = ["red cat", "blue dog", "red dog"]
    encoder = LsaEncoder(dim=4).fit(texts)
    pool = nq.ArmPool.from_vectors(texts, encoder.encode(texts), encoder=encoder)
    assert all(not isinstance(part, Path) for part in pool.parts().values())
    pool.save(tmp_path)
    opened = nq.ArmPool.open(tmp_path)
    written = [name for name, part in opened.parts().items() if not isinstance(part, Path)]
    assert written == ["removed.npy"]
    opened.add(["blue cat"], encoder.encode(["blue cat"]))
    written = [name for name, part in opened.parts().items() if not isinstance(part, Path)]
    assert set(written) > {"removed.npy", "vectors.npy", "texts.bin"}
    assert not any(name.startswith("encoder_") for name in written)
    opened.save(tmp_path)
    again = nq.ArmPool.open(tmp_path).encoder
    assert again is not None
    assert np.array_equal(again.encode(texts), encoder.encode(texts))
