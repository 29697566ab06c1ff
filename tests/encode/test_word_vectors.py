"""Word vectors against loops over every pair of words, and what they find on obvious logs."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.encode import LsaEncoder, Sessions, WordVectorsEncoder, encoder_by_name
from nextquery.encode.word_vectors import _ppmi, _with_neighbours
from nextquery.errors import InvalidInput

TEXTS = ["a b", "b c d", "a d", "c", "d e", "e"]
SESSIONS = [[0, 3, 1], [2, 4], [5]]


def oracle(texts: list[str], sessions: list[list[int]]) -> dict[tuple[str, str], float]:
    """PPMI by counting: every other word of the query, and of its neighbours in each session."""
    near = [(i, i) for i in range(len(texts))]
    for session in sessions:
        for left, right in pairwise(session):
            near += [(left, right), (right, left)]
    counts: dict[tuple[str, str], int] = {}
    for i, j in near:
        for word, context in product(dict.fromkeys(texts[i].split()), set(texts[j].split())):
            if word != context:
                counts[word, context] = counts.get((word, context), 0) + 1
    of_word: dict[str, float] = {}
    of_context: dict[str, float] = {}
    for (word, context), n in counts.items():
        of_word[word] = of_word.get(word, 0) + n
        of_context[context] = of_context.get(context, 0) + n
    total = sum(n**0.75 for n in of_context.values())
    pmi = {
        (word, context): math.log(n * total / (of_word[word] * of_context[context] ** 0.75))
        for (word, context), n in counts.items()
    }
    return {pair: value for pair, value in pmi.items() if value > 0}


def computed(texts: list[str], sessions: list[list[int]]) -> dict[tuple[str, str], float]:
    encoder = WordVectorsEncoder().fit(texts)
    bags = encoder._bags(texts)
    found = _ppmi(bags, _with_neighbours(bags, Sessions.of(sessions))).tocoo()
    words = list(encoder._places or ())
    commonest = np.argsort(-bags.sum(axis=0), kind="stable")
    return {
        (words[word], words[commonest[context]]): float(value)
        for word, context, value in zip(found.row, found.col, found.data, strict=True)
    }


def test_counts_and_logarithms() -> None:
    assert computed(TEXTS, SESSIONS) == pytest.approx(oracle(TEXTS, SESSIONS))
    assert computed(TEXTS, []) == pytest.approx(oracle(TEXTS, []))


WORDS = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=4, unique=True).map(" ".join)


@settings(max_examples=25, deadline=None)
@given(st.lists(WORDS, min_size=2, max_size=8, unique=True), st.data())
def test_any_log(texts: list[str], data: st.DataObject) -> None:
    ids = st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=4)
    sessions = data.draw(st.lists(ids, max_size=4))
    assert computed(texts, sessions) == pytest.approx(oracle(texts, sessions))


def test_word_vectors_factorise_the_matrix() -> None:
    """With all dimensions, the products of U √S are those of the matrix's left factor."""
    encoder = WordVectorsEncoder(dim=99)
    encoder.fit(TEXTS, SESSIONS)
    bags = encoder._bags(TEXTS)
    ppmi = _ppmi(bags, _with_neighbours(bags, Sessions.of(SESSIONS)))
    left, strengths, _ = np.linalg.svd(ppmi.toarray())
    expected = left @ np.diag(strengths) @ left.T
    vectors = WordVectorsEncoder(dim=99)._factorised(ppmi)
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-9)


def test_a_text_is_the_weighted_mean_of_its_words() -> None:
    encoder = WordVectorsEncoder(dim=4).fit(TEXTS, SESSIONS)
    bags = encoder._bags(TEXTS)
    ppmi = _ppmi(bags, _with_neighbours(bags, Sessions.of(SESSIONS)))
    words = list(encoder._places or ())
    raw = dict(zip(words, WordVectorsEncoder(dim=4)._factorised(ppmi), strict=True))
    total = sum(len(text.split()) for text in TEXTS)
    share = {word: sum(word in text.split() for text in TEXTS) / total for word in words}
    means = np.array(
        [sum(1e-3 / (1e-3 + share[word]) * raw[word] for word in text.split()) for text in TEXTS]
    )
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-4)


def test_words_that_never_meet_are_alike_by_their_neighbours() -> None:
    """In a log of single words, only the sessions tell; LSA sees no word twice."""
    animals, money = ["cat", "dog", "vet", "leash"], ["stock", "bond", "bank", "loan"]
    texts = [*animals, *money]
    rng = np.random.default_rng(0)
    sessions = [(rng.permutation(4)[:3] + 4 * (i % 2)).tolist() for i in range(40)]
    encoder = encoder_by_name("word-vectors", dim=2).fit(texts, sessions)
    rows = encoder.encode(texts)
    similar = rows @ rows.T
    same = similar[:4, :4][~np.eye(4, dtype=bool)].mean()
    assert same > similar[:4, 4:].mean() + 0.5
    apart = LsaEncoder(dim=6).fit(texts).encode(texts)
    assert abs((apart @ apart.T)[:4, :4][~np.eye(4, dtype=bool)].mean()) < 0.5


def test_every_text_of_the_log_has_a_vector() -> None:
    texts = ["tea", "coffee", "green tea", "机器学习"]
    encoder = WordVectorsEncoder(dim=3).fit(texts)
    assert encoder.encode(texts).any(axis=1).all()
    assert not encoder.encode(["unknown", ""]).any()
    with pytest.raises(InvalidInput, match="4 texts without words"):
        WordVectorsEncoder().fit(["", " ", "  ", "\t"])
