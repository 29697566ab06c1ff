"""Which texts an encoder's vocabulary can represent, and where words end."""

import pytest

from nextquery.encode import LsaEncoder, StaticEncoder, TunedEncoder, choose
from nextquery.encode.auto import share_known
from nextquery.encode.tokens import dense, doubt, runs_on, sample, words_of


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("deep learning", 1.0),
        ("c", 1.0),
        ("khovanov rozansky", 1.0),
        ("нейронные сети", 1.0),
        ("الشبكات العصبية", 0.0),  # spelt letter by letter
        ("የማሽን ትምህርት", 0.0),  # spelt byte by byte
        ("โครงข่ายประสาท", 0.0),
        ("☃", 0.0),
        ("2024", 1.0),
    ],
)
def test_a_text_is_known_by_pieces_of_its_words(text: str, share: float) -> None:
    assert share_known([text]) == share
    assert StaticEncoder().share_known([text]) == share
    assert TunedEncoder().share_known([text]) == share
    assert LsaEncoder().share_known([text]) == 1.0  # it learns its words from the log


def test_words_where_there_are_no_spaces() -> None:
    assert words_of("深度学习 gpu") == ["深度", "度学", "学习", "gpu"]
    assert words_of("水") == ["水"]
    assert words_of("기계 학습") == ["기계", "학습"]
    assert words_of("ยาแก้ไอ")[0] == "ยาแก"
    assert words_of("") == []
    assert dense(["기계 학습"])
    assert not runs_on(["기계 학습"])
    assert runs_on(["ยาแก้ไอ"])
    assert not dense(["ยาแก้ไอ"])


def test_the_sample_is_a_sample() -> None:
    texts = [str(i) for i in range(10_000)]
    assert len(sample(texts)) == 2_000
    assert sample([]) == []
    assert share_known([]) == 1.0


def test_what_is_said_about_unknown_texts() -> None:
    assert doubt("tuned", 0.951) == ""
    assert "tuned cannot represent 40% of the queries" in doubt("tuned", 0.6)


def test_auto_counts_short_grams_of_dense_scripts() -> None:
    chosen = choose(5_000, 9, known=0.4, dense=True)
    assert isinstance(chosen, LsaEncoder)
    assert chosen.grams == [1, 3]
    assert choose(5_000, 9, known=0.5).name == "tuned"


def test_short_grams_find_what_long_ones_miss() -> None:
    texts = ["流感症状", "流感疫苗", "太阳能", "太阳能板"]
    vaccine, flu, sun, panel = range(4)
    short = LsaEncoder(analyzer="char", grams=(1, 3)).fit(texts).encode(texts)
    assert short[vaccine] @ short[flu] > short[vaccine] @ short[sun]
    assert short[sun] @ short[panel] > short[sun] @ short[flu]
