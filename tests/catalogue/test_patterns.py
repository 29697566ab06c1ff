"""Patterns match as a slow oracle does, quickly whatever they are, and hide arms."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nextquery as nq
from nextquery.arms.texts import TextColumn, Texts, containing
from nextquery.catalogue.catalogue import Catalogue
from nextquery.catalogue.rules import Exclusions, TextPattern, check_pattern
from nextquery.errors import InvalidInput

WORD = st.text("ab*?", min_size=1, max_size=6)
PATTERNS = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
QUERIES = st.lists(st.text("abcB", min_size=1, max_size=6), min_size=1, max_size=5).map(" ".join)


def oracle(pattern: str, query: str) -> bool:
    words = (re.escape(word) for word in pattern.split())
    parts = (word.replace(r"\*", "[^ ]*").replace(r"\?", "[^ ]") for word in words)
    return re.search(f"(^| ){' '.join(parts)}( |$)", query.lower()) is not None


@given(PATTERNS, QUERIES)
def test_a_pattern_matches_as_the_regular_expression_does(pattern: str, query: str) -> None:
    if not set(pattern) & set("ab"):
        with pytest.raises(InvalidInput, match="every query"):
            TextPattern.of(pattern)
        return
    assert TextPattern.of(pattern).matches(query) == oracle(pattern, query)


def test_no_pattern_takes_long() -> None:
    evil = TextPattern.of("*a" * 99 + "b")
    assert not evil.matches("a" * 2000)  # a backtracking matcher would not end


@pytest.mark.parametrize("wrong", ["", "   ", "x" * 201, 7, None, "a\x00b"])
def test_what_is_no_pattern(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="a pattern must"):
        check_pattern(wrong)


@given(st.lists(st.text("aBé ", min_size=1, max_size=5), max_size=8), st.text("abé", min_size=1))
def test_the_texts_that_contain_a_piece_are_found(texts: list[str], piece: str) -> None:
    for stored in (0, len(texts) // 2, len(texts)):
        table = Texts(TextColumn.of(texts[:stored]))
        table.append(texts[stored:])
        found = containing(table, piece)
        wanted = [row for row, text in enumerate(texts) if piece in text.lower()]
        assert set(wanted) <= set(found)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["a*", "*b", "ab", "?b"])), max_size=8))
def test_exclusions_are_those_in_force(changes: list[tuple[bool, str]]) -> None:
    texts = ["ab", "a", "b", "cb ab", "c"]
    pool = nq.ArmPool.from_vectors(texts, np.eye(5))
    excluded = Exclusions(pool)
    blocked, patterns = set[str](), set[str]()
    for on, name in changes:
        if "*" in name or "?" in name:
            (excluded.block_pattern if on else excluded.unblock_pattern)(TextPattern.of(name))
            (patterns.add if on else patterns.discard)(name)
        else:
            (excluded.block if on else excluded.unblock)(name)
            (blocked.add if on else blocked.discard)(name)
    pool.add(["bb"], [[1, 1, 0, 0, 0]])
    excluded.added(5, "bb")
    wanted = [
        arm
        for arm, text in enumerate([*texts, "bb"])
        if text in blocked or any(oracle(one, text) for one in patterns)
    ]
    assert excluded.arms.tolist() == wanted
    assert all((text in excluded) == (arm in wanted) for arm, text in enumerate([*texts, "bb"]))


def test_a_pattern_is_cleaned_like_the_queries_and_keeps_its_wildcards() -> None:
    log = nq.ArmPool.from_vectors(["cafe bar", "cafes"], [[1, 0], [0, 1]])
    catalogue = Catalogue(log)
    assert catalogue.block_pattern("CAFE*") == "cafe*"
    assert catalogue.hidden_arms().tolist() == [0, 1]
    assert catalogue.own_id("the cafe") is None  # nor does it come back to who asked it
    catalogue.unblock_pattern("cafe*")
    assert catalogue.hidden_arms().tolist() == []
