import pytest

from nextquery.encode import ENCODERS, choose, encoder_by_name
from nextquery.errors import InvalidInput


@pytest.mark.parametrize(
    ("sessions", "name"),
    [(0, "static"), (299, "static"), (300, "projected"), (999, "projected"), (1000, "tuned")],
)
def test_the_log_decides(sessions: int, name: str) -> None:
    assert choose(sessions, 10 * sessions).name == name
    assert encoder_by_name("auto", n_sessions=sessions, n_texts=9).name == name


def test_sql_gets_character_grams() -> None:
    assert choose(10_000, 10, profile="sql").get_params()["analyzer"] == "char"


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_every_name_makes_its_encoder(name: str) -> None:
    assert encoder_by_name(name, dim=9).name == name
    assert encoder_by_name(name, dim=9).dim == 9


def test_the_error_for_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput, match=r"auto, static, projected, tuned, lsa, sentence.*'bert'"
    ):
        encoder_by_name("bert")
    with pytest.raises(InvalidInput, match=r"static has the options dim; received \['colour'\]"):
        encoder_by_name("static", colour="red")
    with pytest.raises(InvalidInput, match="Pass both sizes"):
        encoder_by_name("auto")
    with pytest.raises(InvalidInput, match="profile must be one of text, sql"):
        choose(1, 1, profile="xml")
    with pytest.raises(InvalidInput, match="n_sessions"):
        choose(-1, 1)
