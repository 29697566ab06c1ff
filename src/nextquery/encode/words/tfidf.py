"""TF-IDF weights of texts over fitted words, bit for bit those of scikit-learn.

Importing scikit-learn takes a second; a service that only encodes queries does not need it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_WORD = re.compile(r"\b\w\w+\b")


class Tfidf:
    """(1 + ln tf) · idf per text and word, each row of length 1.

    Parameters
    ----------
    words : the fitted words, or character n-grams, in column order.
    idf : the weight of each.
    grams : shortest and longest length of character n-grams within words; None for whole words.

    >>> Tfidf(["cat", "red"], np.array([1.0, 2.0])).transform(["Red cat", "a"]).toarray()
    array([[0.4472136 , 0.89442719],
           [0.        , 0.        ]])
    """

    def __init__(
        self, words: Sequence[str], idf: NDArray[np.float64], grams: tuple[int, int] | None = None
    ) -> None:
        self.words, self.idf = list(words), idf
        self._column = {word: column for column, word in enumerate(self.words)}
        self._terms = _words if grams is None else partial(_grams, *grams)

    def transform(self, texts: Sequence[str]) -> "csr_matrix[Any]":
        """Return the weights: a row for each text, a column for each word."""
        from scipy.sparse import csr_matrix

        columns: list[int] = []
        counts: list[int] = []
        offsets = [0]
        for text in texts:
            terms = Counter(self._terms(text.lower()))
            known = sorted((self._column[t], n) for t, n in terms.items() if t in self._column)
            columns += [column for column, _ in known]
            counts += [count for _, count in known]
            offsets.append(len(columns))
        weights = np.log(np.array(counts, np.float64)) + 1.0
        weights *= self.idf[columns] if columns else 1.0
        shape = len(texts), len(self.words)
        squares = csr_matrix((weights * weights, columns, offsets), shape=shape)
        summed: Any = squares @ np.ones(shape[1])  # from left to right
        lengths = np.sqrt(summed)
        weights /= np.repeat(lengths, np.diff(offsets))
        return csr_matrix((weights, columns, offsets), shape=shape)


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
