import tempfile

from hypothesis import given
from hypothesis import strategies as st

from nextquery import folders
from nextquery.arms.texts import Texts, checked

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), unique=True
)


@given(TEXTS, TEXTS)
def test_texts_and_ids_find_each_other(a: list[str], b: list[str]) -> None:
    added = [text for text in b if text not in a]
    texts = Texts()
    texts.append(checked(a))
    with tempfile.TemporaryDirectory() as where:
        folder = folders.write(where, kind="texts", version=1, parts=texts.parts())
        texts = Texts.of(folder)
        texts.append(added)
        assert list(texts) == a + added
        assert texts[1:] == (a + added)[1:]
        assert [texts.ids_of(text) for text in a + added] == [[i] for i in range(len(texts))]
        assert texts.ids_of("no such text at all") == []
        del texts
