"""LSA: TF-IDF and truncated SVD fitted on the log, for text without pretrained word vectors.

The TF-IDF weights equal those of scikit-learn bit for bit. Importing scikit-learn takes a second,
and a service that only encodes queries does not need it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nextquery import folders
from nextquery.checks import installed, one_of, whole_number
from nextquery.encode.encoder import Encoder, Vectors, fitted
from nextquery.encode.tokens import summed
from nextquery.errors import InvalidInput
from nextquery.sessions import AnySessions
from nextquery.vectors import unit_rows

_WORD = re.compile(r"\b\w\w+\b")


class Tfidf:
    """(1 + ln tf) · idf per text and word, each row of length 1.

    Parameters
    ----------
    words : the fitted words, or character n-grams, in column order.
    idf : the weight of each.
    grams : shortest and longest length of character n-grams within words; None for whole words.

    >>> tfidf = Tfidf(["cat", "red"], np.array([1.0, 2.0]))
    >>> columns, offsets, weights = tfidf.transform(["Red cat"])
    >>> columns.tolist(), offsets.tolist(), weights.round(3).tolist()
    ([0, 1], [0, 2], [0.447, 0.894])
    """

    def __init__(
        self, words: Sequence[str], idf: NDArray[np.float64], grams: tuple[int, int] | None = None
    ) -> None:
        self.words, self.idf = list(words), idf
        self._column = {word: column for column, word in enumerate(self.words)}
        self._terms = _words if grams is None else partial(_grams, *grams)

    def transform(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the columns of all texts, where those of each text begin, and their weights."""
        columns: list[int] = []
        counts: list[int] = []
        lengths = [0]
        for text in texts:
            terms = Counter(self._terms(text.lower()))
            known = sorted((self._column[t], n) for t, n in terms.items() if t in self._column)
            columns += [column for column, _ in known]
            counts += [count for _, count in known]
            lengths.append(len(known))
        at, offsets = np.array(columns, np.int64), np.cumsum(lengths)
        weights = np.log(np.array(counts, np.float64)) + 1.0
        weights *= self.idf[at]
        squares = weights * weights
        sums = summed(squares[:, None], np.arange(len(at)), offsets, np.ones(len(at)))
        weights /= np.repeat(np.sqrt(sums[:, 0]), lengths[1:])
        return at, offsets, weights


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(text)


def _grams(shortest: int, longest: int, text: str) -> Iterable[str]:
    """Yield the n-grams of every word with a space on either side; a shorter word is one itself.

    >>> list(_grams(3, 4, "red"))
    [' re', 'red', 'ed ', ' red', 'red ']
    """
    for word in text.split():
        padded = f" {word} "
        for length in range(shortest, longest + 1):
            last = max(0, len(padded) - length)
            yield from (padded[at : at + length] for at in range(last + 1))
            if not last:
                break


class LsaEncoder(Encoder):
    """Latent semantic analysis (Deerwester et al. 1990): no pretrained model, only the log's words.

    Parameters
    ----------
    dim : maximum number of dimensions (fewer if the log has fewer words), at least 1.
    analyzer : ``word``, or ``char`` for character n-grams within words (SQL, codes, misspellings,
        scripts without spaces).
    grams : lengths of the shortest and the longest n-gram of ``char``, at least 1; 1 to 3 suit
        Chinese, Japanese and Korean.
    seed : seed of the randomised SVD.

    >>> encoder = LsaEncoder(dim=2).fit(["red cat", "black cat", "red wine", "white wine"])
    >>> cat, wine = encoder.encode(["cat", "wine"])
    >>> bool(cat @ wine < 0.5)
    True
    """

    name: ClassVar[str] = "lsa"

    def __init__(
        self,
        dim: int = 128,
        *,
        analyzer: str = "word",
        seed: int = 0,
        grams: Sequence[int] = (3, 5),
    ) -> None:
        self.dim = whole_number(dim, "dim", at_least=1)
        self.analyzer = one_of(analyzer, "analyzer", ("word", "char"))
        shortest, longest = grams
        least = whole_number(shortest, "grams", at_least=1)
        self.grams = [least, whole_number(longest, "grams", at_least=least)]
        self.seed = whole_number(seed, "seed", at_least=0)
        self._tfidf: Tfidf | None = None
        self._components = np.empty((0, 0))

    def fit(self, texts: Sequence[str], sessions: AnySessions = ()) -> Self:
        """Fit words and directions on the texts; sessions are not used."""
        installed("ingest", "scipy", "sklearn")
        from sklearn.decomposition import TruncatedSVD  # takes a second, so only when fitting
        from sklearn.feature_extraction.text import TfidfVectorizer

        grams: dict[str, Any] = {"analyzer": "word"}
        if self.analyzer == "char":
            grams = {"analyzer": "char_wb", "ngram_range": tuple(self.grams)}
        vectorizer = TfidfVectorizer(sublinear_tf=True, **grams)
        try:
            weights = vectorizer.fit_transform(texts)
        except ValueError as error:
            raise InvalidInput(
                f"cannot fit an LSA encoder on {len(texts)} texts: {error}. "
                'Pass texts with words, or use analyzer="char".'
            ) from error
        words = vectorizer.get_feature_names_out().tolist()
        self._tfidf = Tfidf(words, np.asarray(vectorizer.idf_), self._terms)
        rank = min(self.dim, *weights.shape)
        if rank == weights.shape[1]:  # nothing to reduce
            self._components = np.eye(rank)
        else:
            svd = TruncatedSVD(rank, random_state=self.seed).fit(weights)
            self._components = np.ascontiguousarray(svd.components_.T)
        self.dim = rank
        return self

    def _encode(self, texts: Sequence[str]) -> Vectors:
        tfidf = fitted(self._tfidf, self)
        if not texts:
            return np.empty((0, self.dim), np.float32)
        columns, offsets, weights = tfidf.transform(texts)
        return unit_rows(summed(self._components, columns, offsets, weights), allow_zero=True)

    def parts(self) -> dict[str, folders.Part]:
        """Return the words in column order, their weights, and the directions."""
        tfidf = fitted(self._tfidf, self)
        return {
            "encoder_words.json": json.dumps(tfidf.words).encode(),
            "encoder_idf.npy": tfidf.idf,
            "encoder_components.npy": self._components,
        }

    def _restore(self, folder: folders.Folder) -> None:
        words = json.loads(folder.file("encoder_words.json").read_text(encoding="utf-8"))
        self._tfidf = Tfidf(words, np.array(folder.array("encoder_idf.npy")), self._terms)
        self._components = np.array(folder.array("encoder_components.npy"))

    @property
    def _terms(self) -> tuple[int, int] | None:
        """The lengths of n-grams; None for whole words."""
        return None if self.analyzer == "word" else (self.grams[0], self.grams[1])
