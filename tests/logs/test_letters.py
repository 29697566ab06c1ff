"""Cleaning that keeps every script: one form of each letter, one case, one kind of space."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextquery.logs import LogOptions, QueryCleaner
from tests.few_examples import few

CLEAN = QueryCleaner(language="any")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Café Crème", "café crème"),
        ("cafe\u0301", "café"),  # composed
        ("ΟΔΟΣ", "οδοσ"),  # one small sigma
        ("οδός", "οδόσ"),
        ("STRASSE Straße", "strasse strasse"),
        ("Привет, МИР!", "привет мир"),
        ("機械学習、入門。", "機械学習 入門"),
        ("「機械学習」とは？", "機械学習 とは"),
        ("ＤＥＥＰ　ｌｅａｒｎｉｎｇ", "deep learning"),  # full width
        ("ｶﾞｿﾘﾝ", "ガソリン"),  # half width
        ("ما هو التعلم الآلي؟", "ما هو التعلم الآلي"),
        ("የማሽን፡ትምህርት።", "የማሽን ትምህርት"),
        ("नमस्ते, दुनिया।", "नमस्ते दुनिया"),
        ("צה״ל", "צהל"),
        ("l'énergie d’Italie, what's new", "l énergie d italie whats new"),
        ("١٢٣", None),  # digits alone
        ("１２３ 456", None),
        ("。、！", None),
        ("日本 2024", "日本 2024"),
        ("deep learning", "deep learning"),
    ],
)
def test_every_script_is_kept(raw: str, text: str | None) -> None:
    cleaned = CLEAN(raw)
    assert (None if cleaned.dropped else cleaned.text) == text


def test_turkish_has_two_letters_i() -> None:
    assert QueryCleaner(language="tr")("ISPARTA İZMİR").text == "ısparta izmir"
    assert CLEAN("ISPARTA").text == "isparta"


@settings(max_examples=few(25), deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_cleaning_twice_changes_nothing_and_leaves_no_punctuation(query: str) -> None:
    once = CLEAN(query)
    if once.dropped or once.private:
        return
    assert unicodedata.is_normalized("NFC", once.text)
    assert not any(unicodedata.category(c).startswith("P") for c in once.text)
    assert CLEAN(once.text).text == once.text


@settings(max_examples=few(20), deadline=None)
@given(st.text(st.characters(codec="ascii"), max_size=20))
def test_ascii_is_cleaned_alike_in_every_language(query: str) -> None:
    if "'" not in query:  # l'energie has two words where French is kept
        assert CLEAN(query) == ENGLISH(query)


ENGLISH = QueryCleaner()


@pytest.mark.parametrize(
    ("query", "private"),
    [
        ("هاتف ٠٠٤٩١٧١١٢٣٤٥٦٧", "phone"),  # digits of another script
        ("कार्ड ४१११ ११११ ११११ ११११", "card"),
        ("ｂｏｂ＠ｅｘａｍｐｌｅ．ｃｏｍ", "email"),
        ("мой пароль hunter2", "spoken-credential"),
        ("密码是abc123", "spoken-credential"),
        ("забыл пароль", None),
        ("パスワード 8文字以上", None),
    ],
)
def test_private_text_is_found_in_every_script(query: str, private: str | None) -> None:
    assert CLEAN(query).private == private


def test_rules_of_either_kind_may_be_skipped() -> None:
    assert LogOptions(language="any", skip=("letter-forms", "non-ascii")).skip
    assert QueryCleaner(language="any", skip=("letter-forms",))("ＡＢ").text == "ａｂ"
