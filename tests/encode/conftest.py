import sys
import types
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest


class Log(NamedTuple):
    texts: list[str]
    sessions: list[list[int]]


@pytest.fixture(scope="session")
def pets_and_money() -> Log:
    """Sessions about pets or about money; no word is in both halves of a session."""
    pets = ["cat food", "puppy training", "vet near me", "aquarium fish"]
    money = ["stock market", "mortgage rate", "income tax", "savings account"]
    texts = [f"{text} {n}" for n in range(12) for text in pets + money]
    return Log(texts, [[8 * n + side + i for i in range(4)] for n in range(12) for side in (0, 4)])


class WordModel:
    """A fake sentence model: a text is the sum of fixed random vectors of its words."""

    def __init__(self, name: str) -> None:
        if name == "no-such-model":
            raise OSError("no such file")

    def get_embedding_dimension(self) -> int:
        return 48

    def encode(self, texts: Sequence[str], **options: Any) -> Any:
        rows = np.zeros((len(texts), 48), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                if word.isascii():
                    seed = zlib.crc32(word.encode())
                    row += np.random.default_rng(seed).normal(size=48).astype(np.float32)
        return rows


@pytest.fixture(scope="module")
def a_sentence_model() -> Iterator[None]:
    """Make `sentence_transformers` importable, with a model that needs no files."""
    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = WordModel  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sentence_transformers", module)
        yield
