"""Other forms of a query: few, all different, and nothing that could not be another number."""

from hypothesis import assume, given
from hypothesis import strategies as st

from nextquery.logs.cleaning import MOST, forms, other_numbers, plural, singulars

WORDS = st.text("abehiostuxyz", min_size=3, max_size=8)
QUERIES = st.lists(st.one_of(WORDS, st.sampled_from(["x2", "ok", "é", "каты"])), max_size=9)


@given(WORDS)
def test_a_plural_leads_back_to_its_singular(word: str) -> None:
    assume(not word.endswith(("ie", "u")))  # ties, menus: the rules of the stemmer
    assert word in singulars(plural(word))


@given(QUERIES.map(" ".join))
def test_forms_are_few_and_differ_in_the_number_of_words(query: str) -> None:
    found = forms(query)
    assert len(set(found)) == len(found) <= MOST
    assert query not in found
    for form in found:
        for word, other in zip(query.split(" "), form.split(" "), strict=True):
            assert other == word or other in other_numbers(word)


@given(st.lists(WORDS, min_size=1, max_size=3).map(" ".join))
def test_of_few_words_every_combination_is_there(query: str) -> None:
    words = query.split(" ")
    combinations = 1
    for word in words:
        combinations *= 1 + len(other_numbers(word))
    assert len(forms(query)) == min(MOST, combinations - 1)


def test_fewer_changes_come_first() -> None:
    query = "star formation rates in dusty galaxies"

    def changes(form: str) -> int:
        pairs = zip(form.split(), query.split(), strict=True)
        return sum(one != other for one, other in pairs)

    found = list(map(changes, forms(query)))
    assert found == sorted(found)
    assert found[0] == 1


def test_words_of_other_alphabets_stay() -> None:
    assert forms("чёрные дыры 黒い穴 t4r5s") == ()
