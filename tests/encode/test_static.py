import logging
import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.encode import ProjectedEncoder, StaticEncoder, tokens
from nextquery.encode.tokens import Tokens, TokenTable, pretrained
from nextquery.errors import InvalidInput


def test_loading_does_not_use_the_network_or_the_root_logger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", fail)
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    before = list(logging.getLogger().handlers)
    tokenizer, vectors = pretrained.__wrapped__()
    assert vectors.shape == (tokenizer.size, 256)
    assert logging.getLogger().handlers == before


def test_importing_nextquery_stays_light() -> None:
    heavy = "{'wordllama', 'tokenizers', 'torch', 'sentence_transformers', 'requests'}"
    code = f"import sys, nextquery; print(sorted({heavy} & set(sys.modules)))"
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}
    )
    assert done.stdout == "[]\n", done.stderr


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)))
def test_word_by_word_is_what_the_tokenizer_does_with_the_text(words: list[str]) -> None:
    known, _ = pretrained()
    whole = known._tokenizer.encode(" ".join(words), add_special_tokens=False).ids if words else []
    assert known.bags([" ".join(words)]).indices.tolist() == list(known._meaning(whole))


def test_no_token_spans_a_space() -> None:
    vocabulary = pretrained()[0]._tokenizer.get_vocab()
    assert not [token for token in vocabulary if "▁" in token.lstrip("▁")]


def test_the_cache_of_words_is_bounded_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "_CACHED", 5)
    bounded = Tokens(pretrained()[0].json)
    texts = [f"word{n} {'x' * n} shared" for n in range(100)]
    one_by_one = np.concatenate([bounded.bags([text]).indices for text in texts])
    assert len(bounded._known) < 20
    assert one_by_one.tolist() == pretrained()[0].bags(texts).indices.tolist()


def test_all_dimensions_are_the_pretrained_means() -> None:
    tokenizer, vectors = pretrained()
    encoder = StaticEncoder(dim=256).fit([])
    mean = vectors[tokenizer.bags(["gravitational waves"]).indices].mean(axis=0)
    row = encoder.encode(["gravitational waves"])[0]
    np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)


def test_the_reduction_keeps_the_similarities_of_the_log() -> None:
    texts = [f"{a} {b}" for a in ("red", "blue", "old") for b in ("cat", "car", "moon", "tax")]
    wide, narrow = (StaticEncoder(dim=d).fit(texts * 50).encode(texts) for d in (256, 16))
    np.testing.assert_allclose(wide @ wide.T, narrow @ narrow.T, atol=0.1)


def test_more_dimensions_than_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"at most 256.*received 300"):
        StaticEncoder(dim=300).fit(["cat"])


def test_a_projection_folded_into_the_table_is_the_projection() -> None:
    tokenizer, vectors = pretrained()
    matrix = np.random.default_rng(0).normal(size=(256, 3))
    table = TokenTable(tokenizer, vectors)
    texts = ["solar cells", "the cat sat on the mat"]
    after = table.encode(texts).astype(float) @ matrix
    after /= np.linalg.norm(after, axis=1, keepdims=True)
    np.testing.assert_allclose(table.times(matrix).encode(texts), after, atol=1e-6)


def test_projecting_brings_queries_of_a_session_together() -> None:
    things, moods = ("cat", "moon", "tax", "piano"), ("red", "blue")
    texts = [f"{mood} {thing}" for mood in moods for thing in things]
    by_mood, by_thing = [[0, 1, 2, 3], [4, 5, 6, 7]], [[i, i + 4] for i in range(4)]
    for sessions in (by_mood, by_thing):
        near = ProjectedEncoder().fit(texts, sessions).encode(texts)
        near = near @ near.T
        for session in sessions:
            others = [i for i in range(8) if i not in session]
            assert near[np.ix_(session, session)].min() > near[np.ix_(session, others)].max()
