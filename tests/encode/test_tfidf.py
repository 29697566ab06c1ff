"""The weights are those of scikit-learn, bit for bit, and need none of it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from nextquery.encode import LsaEncoder
from nextquery.encode.lsa import Tfidf

WORDS = ("red", "Cat", "wine", "a", "x2", "naïve", "İs", "ΣΑΣ", "c++", "数据", "o'n")
TEXTS = st.lists(
    st.text(max_size=20) | st.lists(st.sampled_from(WORDS)).map(" ".join), min_size=1, max_size=8
)


@pytest.mark.parametrize("grams", [None, (3, 5), (1, 3), (4, 6)])
@given(fitted=TEXTS, texts=TEXTS)
def test_weights_are_those_of_scikit_learn(
    grams: tuple[int, int] | None, fitted: list[str], texts: list[str]
) -> None:
    options = {} if grams is None else {"analyzer": "char_wb", "ngram_range": grams}
    theirs = TfidfVectorizer(sublinear_tf=True, **options)
    try:
        theirs.fit(fitted)
    except ValueError:  # not one word
        assume(False)
    ours = Tfidf(theirs.get_feature_names_out().tolist(), theirs.idf_, grams)
    for some in (texts, fitted):
        columns, offsets, weights = ours.transform(some)
        shape = (len(some), len(ours.words))
        own = csr_matrix((weights, columns, offsets), shape=shape)
        assert np.array_equal(own.toarray(), theirs.transform(some).toarray())
    assert [array.tolist() for array in ours.transform([])] == [[], [0], []]


def test_an_opened_encoder_imports_no_scikit_learn(tmp_path: Path) -> None:
    LsaEncoder(dim=2).fit(["red cat", "black cat", "red wine"]).save(tmp_path / "encoder")
    script = f"""
import sys
from nextquery.encode import Encoder
assert Encoder.load({str(tmp_path / "encoder")!r}).encode(["red cat"]).shape == (1, 2)
print("sklearn" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
